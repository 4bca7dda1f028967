# A trace through every verb.
"$T" import "$F/four_layers.json" -o step.tape && "$T" info step.tape | sed 's/^\(file .* \)[0-9,]* bytes.*/\1/'
echo
"$T" plan step.tape --budget 60% --d2h 10GiB --h2d 10GiB
echo
"$T" simulate step.tape
echo
"$T" simulate step.tape --json
echo
"$T" plan step.tape --budget 1MiB
echo "= $?"
"$T" plan step.tape --budget 1MiB --json 2>/dev/null
echo "= $?"
"$T" verify step.tape --json
"$T" import "$F/four_layers.json" -o json.tape --json
"$T" recover json.tape -o saved.tape --json
rm json.tape saved.tape
"$T" verify step.tape
echo "= $?"
"$T" export step.tape --to interchange -o out.json && "$T" export step.tape --to interchange | cmp - out.json
"$T" import out.json -o again.tape >/dev/null && "$T" export again.tape --to interchange | cmp - out.json
sed -n '/schedules/,$p' out.json
"$T" replay step.tape --json | sed '/"waits"/,$d' | grep -v -e _ns -e late
"$T" view step.tape -o step.html && grep -c '<canvas' step.html
ls
