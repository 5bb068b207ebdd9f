-- Which collectives not all ranks of the group were seen in.
-- One row a group, operation and number of ranks seen; first_seq and last_seq are its numbers. A recording that is missing, one
-- that began later, losses, and ranks that never came all look like this.
SELECT job, attempt, group_key, group_name, op, group_size, ranks_seen, COUNT(*) AS instances, MIN(seq) AS first_seq, MAX(seq) AS last_seq
FROM collective_instances
WHERE ranks_seen <> group_size
GROUP BY job, attempt, group_key, group_name, op, group_size, ranks_seen
ORDER BY instances DESC, job, attempt, group_key, op, ranks_seen
