"""Alerts of lakes, posted to a webhook."""
