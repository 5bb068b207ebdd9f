-- Which files ranks spend their time in.
-- One row a host and file, the worst twenty; ns. ranks: of that host that use it; ns_a_call tells a slow file from a busy one.
SELECT job, attempt, host, file, COUNT(DISTINCT rank) AS ranks, SUM(calls) AS calls, SUM(bytes_read) AS bytes_read,
       SUM(bytes_written) AS bytes_written, SUM(time_ns) AS time_ns, SUM(time_ns) * 1e0 / NULLIF(SUM(calls), 0) AS ns_a_call,
       MAX(longest_ns) AS longest_ns
FROM rank_files
WHERE file IS NOT NULL
GROUP BY job, attempt, host, file
ORDER BY time_ns DESC, job, attempt, host, file
LIMIT 20
