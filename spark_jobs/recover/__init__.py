"""The job `recover`: what a broker's start would leave of an archived log."""
