"""The job `optimize`: small files of a table become large ones in order."""
