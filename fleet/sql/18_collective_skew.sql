-- How unequally ranks enter collectives, by group and operation.
-- One row a group and operation, of the collectives that all ranks were seen in; ns. beyond_clock_error: how many skews are larger
-- than twice the clocks' error that is proved; the others prove nothing. out_of_causal_order: ended before the last rank began,
-- which clocks or the match got wrong.
SELECT job, attempt, group_key, group_name, op, COUNT(*) AS instances, MEDIAN(skew_ns) AS skew_median_ns, MAX(skew_ns) AS skew_max_ns,
       SUM(CASE WHEN skew_ns > 2 * bound_ns THEN 1 ELSE 0 END) AS beyond_clock_error, MAX(bound_ns) AS bound_ns,
       SUM(CASE WHEN transfer_ns < 0 THEN 1 ELSE 0 END) AS out_of_causal_order
FROM collective_instances
WHERE ranks_seen = group_size AND group_size > 1
GROUP BY job, attempt, group_key, group_name, op
ORDER BY skew_median_ns DESC, job, attempt, group_key, op
