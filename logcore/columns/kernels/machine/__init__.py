"""Parts of kernels: processor kinds, intrinsics, checksums, hashes, numbers."""
