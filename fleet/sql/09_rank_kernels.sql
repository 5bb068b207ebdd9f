-- What each rank's GPUs took for each kernel that is no communication.
-- A view: other questions build on it. One row a rank, GPU and kernel; ns.
SELECT k.job, k.attempt, k.rank, k.host, k.name, k.calls, k.total_ns, k.median_ns, p.gpu
FROM kernels k JOIN captures p ON p.input = k.input AND p.is_main = 1
WHERE k.is_communication = 0 AND k.kind = 'kernel' AND k.median_ns > 0
