-- Which groups take longer for the same transfer than others: a slow link.
-- One row a group, operation and size that takes more than 1.2 times the median of at least three groups of that size; ns.
WITH g AS (
  SELECT job, attempt, op, in_bytes, group_size, group_key, group_name, MEDIAN(transfer_ns) AS transfer_ns, COUNT(*) AS instances
  FROM collective_instances
  WHERE ranks_seen = group_size AND transfer_ns > 0 AND is_timed = 1
  GROUP BY job, attempt, op, in_bytes, group_size, group_key, group_name),
m AS (
  SELECT job, attempt, op, in_bytes, group_size, MEDIAN(transfer_ns) AS middle_ns, COUNT(*) AS peers
  FROM g GROUP BY job, attempt, op, in_bytes, group_size)
SELECT g.job, g.attempt, g.op, g.group_key, g.group_name, g.instances, g.transfer_ns, m.middle_ns,
       g.transfer_ns / NULLIF(m.middle_ns, 0e0) AS ratio
FROM g JOIN m ON g.job = m.job AND g.attempt = m.attempt AND g.op = m.op AND g.in_bytes = m.in_bytes AND g.group_size = m.group_size
WHERE m.peers > 2 AND g.transfer_ns > 1.2e0 * m.middle_ns
ORDER BY ratio DESC, g.job, g.attempt, g.group_key, g.op, g.in_bytes
