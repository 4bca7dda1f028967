# The tables and views of a tape, and that nothing can be changed.
"$T" import "$F/four_layers.json" -o step.tape >/dev/null && "$T" plan step.tape --budget 60% >/dev/null
ask() {
  echo "> $*"
  "$T" sql step.tape "$@"
  code=$?
  [ $code = 0 ] || echo "= $code"
}
ask "SELECT * FROM op WHERE op >= 7" --header
ask "SELECT * FROM op WHERE op = 4 AND trace = 1"
ask "SELECT * FROM op WHERE op > 9 OR op < 0"
ask "SELECT * FROM access WHERE sid = 11"
ask "SELECT op, count(*) FROM access WHERE kind = 'W' GROUP BY op ORDER BY op DESC LIMIT 2"
ask "SELECT * FROM output WHERE op BETWEEN 3 AND 5"
ask "SELECT * FROM storage WHERE sid IN (0, 13, 30)"
ask "SELECT * FROM retained"
ask "SELECT * FROM action WHERE op = 7"
ask "SELECT * FROM mark"
ask "SELECT * FROM meta"
ask "SELECT * FROM time_by_name" --csv
ask "SELECT max(bytes) FROM alive" --json
ask "SELECT * FROM lifetime WHERE sid < 12"
ask "SELECT * FROM gap LIMIT 2"
ask "SELECT * FROM largest LIMIT 2"
ask "SELECT a.op FROM access a JOIN op o USING (trace, op) WHERE o.name = 'loss' AND a.sid = 30"
ask "SELECT 'tab	and \\ and \"quote\"', NULL, x'00ff', 1.5"
ask "SELECT 'comma, and \"quote\"', NULL, x'00ff', 1.5" --csv
ask "SELECT '<b>', NULL, x'00ff', 1.5" --json
ask "SELECT 1 WHERE 0" --json
ask "SELECT * FROM op; DELETE FROM trace" | tail -n 1
ask "UPDATE trace SET ops = 0"
ask "CREATE TABLE t(x)"
ask "CREATE TEMP TABLE t(x)"
ask "ATTACH 'other.db' AS other"
ask "PRAGMA writable_schema = 1"
ask "VACUUM INTO 'copy.tape'"
ask "SELECT load_extension('x')"
ask "SELECT nothing FROM op"
ask "DROP TABLE op"
"$T" verify step.tape
ls
