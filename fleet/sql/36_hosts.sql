-- What each host's recordings are worth.
-- One row a host; events lost, versions, the clock.
SELECT job, attempt, host, COUNT(*) AS inputs, COUNT(DISTINCT rank) AS ranks, SUM(events) AS events, SUM(lost) AS lost,
       COUNT(DISTINCT boot_id) AS boots, COUNT(DISTINCT torch_version) AS torch_versions, MAX(bound_ns) AS bound_ns,
       MAX(estimate_error_ns) AS estimate_error_ns, MIN(clock_method) AS clock_method, MAX(overhead_percent) AS overhead_percent
FROM captures
GROUP BY job, attempt, host
ORDER BY job, attempt, host
