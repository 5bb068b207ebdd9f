-- Which ranks have not entered a group's last collective: the ones that a hanging job waits for.
-- One row a rank whose last number is below the group's.
WITH last_of AS (
  SELECT job, attempt, group_key, group_name, rank, MAX(seq) AS seq FROM collectives
  WHERE is_p2p = 0 AND match <> 'none' GROUP BY job, attempt, group_key, group_name, rank),
most AS (
  SELECT job, attempt, group_key, MAX(seq) AS seq FROM last_of GROUP BY job, attempt, group_key)
SELECT l.job, l.attempt, l.group_key, l.group_name, l.rank, l.seq AS last_seq, m.seq AS groups_last_seq
FROM last_of l JOIN most m ON l.job = m.job AND l.attempt = m.attempt AND l.group_key = m.group_key
WHERE l.seq < m.seq
ORDER BY l.job, l.attempt, l.group_key, l.seq, l.rank
