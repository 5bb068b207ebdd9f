-- How fast collectives move their bytes.
-- One row an operation, group and size; GB/s (10^9 bytes), by the transfer, not by the time that includes waiting. bus_gb_s is what
-- links carry: (n - 1) / n of the bytes, twice for an all-reduce. without_clocks: by the shortest rank's time.
SELECT job, attempt, op, group_key, group_name, group_size, in_bytes, COUNT(*) AS instances, MEDIAN(transfer_ns) AS transfer_median_ns,
       MEDIAN(in_bytes * 1e0 / transfer_ns) AS algorithm_gb_s,
       MEDIAN(in_bytes * (CASE op WHEN 'allreduce' THEN 2e0 ELSE 1e0 END) * (group_size - 1) / group_size / transfer_ns) AS bus_gb_s,
       MEDIAN(in_bytes * 1e0 / NULLIF(min_duration_ns, 0)) AS algorithm_gb_s_without_clocks
FROM collective_instances
WHERE ranks_seen = group_size AND transfer_ns > 0 AND is_timed = 1
GROUP BY job, attempt, op, group_key, group_name, group_size, in_bytes
ORDER BY bus_gb_s, job, attempt, group_key, op, in_bytes
