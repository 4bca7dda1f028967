# What plan can be asked for.
"$T" import "$F/four_layers.json" -o step.tape >/dev/null
"$T" plan step.tape --budget 60% --d2h 10GiB --h2d 10GiB --d2h-latency 50us --h2d-latency 0.1ms --effort 3
"$T" simulate step.tape | tail -1
"$T" export step.tape --to interchange | grep -o '"d2h_latency_ns.*"actions"'
echo
"$T" plan step.tape --budget 60% --planner exact --json | grep -v '"stall_free'
echo
"$T" plan step.tape --budget 60% --move all
"$T" simulate step.tape
echo "= $?"
"$T" plan step.tape --budget 40% --move all
echo "= $?"
echo
"$T" plan step.tape --budget auto --max-stall 5%
echo
"$T" plan step.tape --budget 60% --host-budget 1KiB
echo "= $?"
"$T" plan step.tape --budget 60% --host-budget 1MiB --planner exact
echo "= $?"
"$T" plan step.tape --budget 60% --move parameters
"$T" plan step.tape --budget 60% --d2h-latency soon
"$T" plan step.tape --budget 60% --effort lots
echo
# The tape's own link is the default.
sed 's/"meta": {/"meta": {"d2h_bytes_per_s": 5e9, "h2d_bytes_per_s": 6e9, "h2d_latency_ns": 7000, "d2h_latency_ns": "none", /' "$F/four_layers.json" >link.json
"$T" import link.json -o link.tape >/dev/null && "$T" plan link.tape --budget 60% --json | grep -e _per_s -e latency | grep -v free
"$T" plan link.tape --budget 60% --d2h 8e9 --h2d-latency 0 --json | grep -e _per_s -e latency | grep -v free
echo
# Without durations time is counted in ops.
sed 's/"dur_ns": [0-9]*/"dur_ns": 0/' "$F/four_layers.json" >still.json
"$T" import still.json -o still.tape >/dev/null && "$T" plan still.tape --budget 60% && "$T" plan still.tape --budget 60% --json | grep -e '"time"' -e share
"$T" plan still.tape --budget auto
echo "= $?"
# A few bytes, where the search between two budgets has nothing between them; and sizes that are rounded up beyond the peak.
printf '{"ops":[{"name":"a","dur_ns":1,"leaves":1,"out":[[0,1]],"acc":[[1,"W"]]},{"name":"b","dur_ns":1,"leaves":1,"out":[[0,2]],"acc":[[2,"W"]]},{"name":"c","dur_ns":1,"leaves":0,"out":[],"acc":[[1,"R"]]}],"storages":{"1":3,"2":2},"activation_sids":[1,2],"retained":[]}' >few.json
"$T" import few.json -o few.tape >/dev/null && "$T" plan few.tape --budget auto | tail -4
"$T" plan few.tape --budget auto --align 1MiB | tail -4
