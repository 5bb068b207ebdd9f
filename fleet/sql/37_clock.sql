-- What the common clock is worth.
-- One row: hosts and boots, how they were put on one clock, and its errors in ns: worst_bound_ns is proved, NULL where nothing is;
-- likely_error_ns is the median of the estimates. timelines: more than one cannot be compared with each other.
SELECT COUNT(DISTINCT host) AS hosts, COUNT(DISTINCT boot_id) AS boots, COUNT(DISTINCT timeline) AS timelines,
       MIN(clock_method) AS a_method, MAX(clock_method) AS another_method, MEDIAN(bound_ns) AS bound_ns, MAX(bound_ns) AS worst_bound_ns,
       MEDIAN(estimate_error_ns) AS likely_error_ns, SUM(CASE WHEN clock_method = 'not aligned' THEN 1 ELSE 0 END) AS not_aligned
FROM captures
