-- For which ranks the others wait, and for how long.
-- One row a rank, the worst twenty; ns. held_up_ns: the sum over the collectives that it entered last, of how long after the one
-- before it: what would be gained if it alone were on time. beyond_clock_error_ns: how much of that is more than twice the error
-- that is proved for the clocks.
SELECT job, attempt, last_rank AS rank, COUNT(*) AS times_last, SUM(gap_ns) AS held_up_ns,
       SUM(CASE WHEN gap_ns > 2 * bound_ns THEN gap_ns ELSE 0 END) AS beyond_clock_error_ns, MAX(bound_ns) AS bound_ns
FROM collective_instances
WHERE ranks_seen = group_size AND group_size > 1
GROUP BY job, attempt, last_rank
ORDER BY held_up_ns DESC, job, attempt, rank
LIMIT 20
