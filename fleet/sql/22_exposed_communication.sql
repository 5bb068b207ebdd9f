-- How much of the steps is communication that nothing hides.
-- One row a rank, the worst first; ns. exposed_share: of the steps; overlap_share: of the communication (1: all of it is hidden).
SELECT job, attempt, rank, SUM(comm_ns) AS comm_ns, SUM(comm_exposed_ns) AS exposed_ns,
       SUM(comm_exposed_ns) * 1e0 / NULLIF(SUM(duration_ns), 0) AS exposed_share,
       SUM(comm_overlap_ns) * 1e0 / NULLIF(SUM(comm_ns), 0) AS overlap_share
FROM steps
WHERE is_main = 1 AND comm_ns IS NOT NULL
GROUP BY job, attempt, rank
ORDER BY exposed_share DESC, job, attempt, rank
