"""What kernels are made of: processor kinds, intrinsics, checksums, hashes, numbers."""
