-- What was seen: ranks of those that there are, events lost, what recording cost.
-- One row a job and attempt. world_size is what the ranks said of their job; ranks_seen of them have a recording here, and blame is
-- never given to the others.
SELECT job, attempt, COUNT(*) AS inputs, COUNT(DISTINCT rank) AS ranks_seen, MAX(world_size) AS world_size,
       COUNT(DISTINCT host) AS hosts, SUM(events) AS events, SUM(lost) AS lost,
       SUM(CASE WHEN lost > 0 THEN 1 ELSE 0 END) AS inputs_with_loss, MAX(overhead_percent) AS overhead_percent,
       COUNT(DISTINCT torch_version) AS torch_versions, MIN(step_confidence) AS step_confidence
FROM captures
GROUP BY job, attempt
ORDER BY job, attempt
