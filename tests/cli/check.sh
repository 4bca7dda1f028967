# Everything suspicious, one after the other.
show() {
  echo "\$ tapedeck $*"
  "$T" "$@"
  code=$?
  [ $code = 0 ] || echo "= $code"
}
# What the last op makes is retained, so that nothing is wrong with this one.
sed 's/"retained": \[30\]/"retained": [30, 20]/; s/, "20": 9}/}/' "$F/four_layers.json" >sound.json
# change NAME EXPRESSION: that step, changed by sed, as NAME.tape.
change() {
  sed "$2" sound.json >"$1.json"
  "$T" import "$1.json" -o "$1.tape" >/dev/null
}
change fine ''
show check fine.tape
show check fine.tape --json
change timeless 's/"dur_ns": [0-9]*/"dur_ns": 0/'
show check timeless.tape
change some '3,8s/"dur_ns": [0-9]*/"dur_ns": 0/'
show check some.tape
change warming '3s/50000/90000000/'
show check warming.tape
change unread '10,12s/\[1[01], "R"\], //; 4,5s/\[1[01], "R"\], //'
show check unread.tape
change unused '11s/, \[20, "W"\]//; 11s/\[\[0, 20\]\]/[]/'
show check unused.tape
change untold '/freed_before_op/d; s/\("retained".*\),$/\1,/'
show check untold.tape
change slow 's/"model": "four layers"/"d2h_bytes_per_s": 2e8, "h2d_bytes_per_s": 12000000000, "d2h_latency_ns": 5000000, "h2d_latency_ns": 20000/'
show check slow.tape
change more 's/"30": 4/"30": 4096/'
"$T" merge fine.tape more.tape -o grows.tape >/dev/null
show check grows.tape
"$T" merge more.tape fine.tape -o shrinks.tape >/dev/null
show check shrinks.tape
# Schedules: for less than the floor, of another trace, with faults, for another link, and one that waits.
cat >schedules <<'END'
"schedules": [
{"planner": "hand", "memory_limit_bytes": 1000, "actions": []},
{"planner": "hand", "memory_limit_bytes": 5000000, "actions": [[3, "post", "COPY_D2H", 77]]},
{"planner": "hand", "memory_limit_bytes": 5000000, "actions": [[2, "post", "RELEASE_DEVICE", 10]]},
{"planner": "hand", "memory_limit_bytes": 5000000, "d2h_bytes_per_s": 1e10, "h2d_bytes_per_s": 1e10, "actions": [[2, "post", "COPY_D2H", 10]]}],
END
sed '2{
r schedules
N
}' sound.json | sed 's/"model": "four layers"/"d2h_bytes_per_s": 25000000000, "h2d_bytes_per_s": 25000000000/' >planned.json
"$T" import planned.json -o planned.tape
show check planned.tape
"$T" plan fine.tape --budget 50% --d2h 1GiB --h2d 1GiB >/dev/null
show check fine.tape
show check nowhere.tape
