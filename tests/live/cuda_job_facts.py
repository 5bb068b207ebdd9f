"""What a round of cuda_job.py does, for the test."""

COPIED, SET, ALLOCATED = 4096, 100, 1 << 20  # bytes
WAIT_NS = 2_000_000  # of cudaStreamSynchronize (tests/support/cuda_double)
