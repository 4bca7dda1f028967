# Two steps side by side.
show() {
  echo "\$ tapedeck $*"
  "$T" "$@"
  code=$?
  [ $code = 0 ] || echo "= $code"
}
# change NAME EXPRESSION: the fixture, changed by sed, as NAME.tape.
change() {
  sed "$2" "$F/four_layers.json" >"$1.json"
  "$T" import "$1.json" -o "$1.tape" >/dev/null
}
change a ''
change time 's/50000/60000/'
change sids 's/\b1\([0-3]\)\b/7\1/g'
change renamed '5s/linear/conv/'
change leaves '7s/"leaves": 1/"leaves": 2/'
change reads '9s/\[12, "R"\]/[11, "R"]/'
change written '9s/\[12, "R"\]/[12, "W"]/'
change bound '5s/"leaves": 1, "out": \[\[0, 12\]\]/"leaves": 4, "out": [[3, 12]]/'
change four '5s/"leaves": 1/"leaves": 4/'
change sizes '/storages/s/1000000/2000000/g'
change held 's/"retained": \[30\]/"retained": [30, 20]/; s/, "20": 9}/}/'
change freed 's/"13": 6/"13": 7/'
change shorter '/"out": \[\[0, 20\]\]/d; s/\(\[0, 21\].*\]}\),$/\1/; s/"10": 9/"10": 8/; s/"21": 9/"21": 8/; s/, "20": 9}/}/; s/, "20": 400000//; s/, 20\]/]/'
change extra '5s/^/{"name": "print", "dur_ns": 1, "leaves": 0, "out": [], "acc": [[11, "R"]]},\n/; s/"10": 9/"10": 10/; s/"11": 8/"11": 9/; s/"12": 7/"12": 8/; s/"13": 6/"13": 7/; s/"23": 7/"23": 8/; s/"22": 8/"22": 9/; s/"21": 9/"21": 10/; s/, "20": 9}/, "20": 10}/'
change layers 's/"linear"/"fused_linear"/'
change folded '4s/linear/conv/; 9s/linear_backward/conv_backward/; 11s/linear_backward/conv_backward/'
show diff a.tape a.tape
show diff a.tape time.tape
show diff a.tape sids.tape
for name in renamed leaves reads written sizes held freed shorter extra layers; do
  show diff a.tape $name.tape
done
show diff four.tape bound.tape
show diff a.tape folded.tape --context 1
show diff a.tape folded.tape --limit 1
show diff shorter.tape a.tape --context 1
show diff a.tape extra.tape --json
show diff a.tape a.tape --json | head -n 6
show diff a.tape extra.tape --quiet
show diff a.tape sids.tape -q
"$T" merge a.tape extra.tape -o both.tape >/dev/null
show diff both.tape --traces 1:2 --context 1
show diff both.tape --traces 2:2
show diff both.tape --traces 1:3
show diff both.tape --traces 1
# Two schedules.
show diff a.tape --schedules 1:2
for tape in a sids; do
  "$T" plan $tape.tape --budget 60% --d2h 10GiB --h2d 10GiB >/dev/null
done
"$T" plan a.tape --budget 80% --d2h 10GiB --h2d 10GiB >/dev/null
show diff a.tape --schedules 1:2
show diff a.tape sids.tape --schedules 1:newest
show diff a.tape --schedules 1:2 --json
show diff a.tape renamed.tape --schedules newest
# A plan and its runs.
show diff a.tape --run newest
"$T" replay a.tape --schedule 1 --report >/dev/null
"$T" replay a.tape --schedule 2 --report >/dev/null
"$T" diff a.tape --run newest | sed -e 's/, [0-9-]* [0-9:]* UTC//' -e '/^step/d' -e '/^stall/d' -e '/^$/,$ { /waited/,$d; }'
"$T" diff a.tape --run 1 --json | grep -v -e _ns -e waits
"$T" diff a.tape --run 1 -q && echo "= as planned"
show diff a.tape --run 9
show diff a.tape b.tape --run 1
show diff a.tape --run 1 --schedules 1:2
show diff a.tape
show diff a.tape sids.tape time.tape
show diff a.tape nowhere.tape
