-- What each rank's calls for each file took.
-- A view: other questions build on it. One row a rank, kind and file; sums in ns and bytes.
SELECT i.job, i.attempt, i.rank, i.host, i.kind, i.file, SUM(i.calls) AS calls, SUM(i.bytes_read) AS bytes_read,
       SUM(i.bytes_written) AS bytes_written, SUM(i.time_ns) AS time_ns, MAX(i.longest_ns) AS longest_ns
FROM io i JOIN captures k ON k.input = i.input AND k.is_main = 1
GROUP BY i.job, i.attempt, i.rank, i.host, i.kind, i.file
