# What people look at first: info, ops, storages, top, explain.
show() {
  echo "\$ tapedeck $*"
  "$T" "$@"
  code=$?
  [ $code = 0 ] || echo "= $code"
}
"$T" import "$F/four_layers.json" -o step.tape >/dev/null
show info step.tape --json | grep -v file_bytes
show ops step.tape
show ops step.tape --name '*backward' --ops 0:7 --sort name --reverse
show ops step.tape -n 2 --sort alive_bytes
show ops step.tape --ops 4:5 --json
show ops step.tape --name nothing
show ops step.tape --ops 5
show ops step.tape --ops 7:5
show ops step.tape --sort time
show ops step.tape --limit 0
show storages step.tape
show storages step.tape --kind retained --json
show storages step.tape --name 'linear_b*' --sort sid
show storages step.tape --ops 8:9 --limit 3
show storages step.tape --kind leaf
show top step.tape
show top step.tape --sort new_bytes -n 1
show top step.tape --json -n 2
show explain step.tape 10
show explain step.tape op5
"$T" plan step.tape --budget 60% --d2h 10GiB --h2d 10GiB >/dev/null
show explain step.tape 10
show explain step.tape 11
show explain step.tape 30
show explain step.tape sid:0
show explain step.tape op:7
show explain step.tape op8
show explain step.tape 11 --json
show explain step.tape op7 --json
show explain step.tape 99
show explain step.tape op9
show explain step.tape layer
show explain step.tape op1 --schedule 3
cp step.tape again.tape && "$T" merge step.tape again.tape -o two.tape >/dev/null
show info two.tape --trace 1 | grep -v ^file
# A name is bytes: it never moves the cursor or ends a line.
sed 's/"loss"/"\\u001b[31mred\\nnext\\u0000end\\udc80"/' "$F/four_layers.json" >odd.json
"$T" import odd.json -o odd.tape >/dev/null
show ops odd.tape --ops 4:5
show top odd.tape --json -n 1 --sort name --reverse
show explain odd.tape op4
