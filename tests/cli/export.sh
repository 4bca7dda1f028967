# Forms for other programs.
"$T" import "$F/four_layers.json" -o step.tape >/dev/null
"$T" export step.tape --to chrome | head -n 12
"$T" plan step.tape --budget 60% >/dev/null
"$T" export step.tape --to chrome -o step.json
grep -e '"cat": "copy"' -e '"cat": "stall"' -e '"ph": "i"' step.json
"$T" export step.tape --to csv
"$T" export step.tape --to csv -o tables
ls tables
cat tables/action.csv tables/meta.csv tables/retained.csv
head -n 2 tables/op.csv
"$T" export step.tape --to csv -o /dev/null/x
