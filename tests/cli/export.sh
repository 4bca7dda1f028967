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
# A range of ops: only its rows, and only its blocks are read.
"$T" export step.tape --to dot --ops 1:3
"$T" export step.tape --to dot -o step.dot && grep -c -e '->' step.dot
"$T" export step.tape --to csv --ops 3:5 -o range && cat range/op.csv range/storage.csv range/action.csv range/mark.csv
"$T" export step.tape --to chrome --ops 1:3
"$T" export step.tape --to dot --ops 1
sed 's/"loss"/"a \\"quoted\\\\ name\\n<b>"/' "$F/four_layers.json" >odd.json
"$T" import odd.json -o odd.tape >/dev/null
"$T" export odd.tape --to dot --ops 4:5 | grep op4
python3 - >long.json <<'END'
print('{"ops": [' + ','.join('{"name": "op%d", "dur_ns": 1, "leaves": 1, "out": [], "acc": [[%d, "R"]]}' % (i, i % 7) for i in range(40000)))
print('], "storages": {' + ','.join('"%d": 64' % i for i in range(7)) + '}, "activation_sids": [], "retained": []}')
END
"$T" import long.json -o long.tape >/dev/null
sqlite3 long.tape "UPDATE block SET data = x'00' WHERE col BETWEEN 2 AND 11 AND seq = 1"
"$T" export long.tape --to csv --ops 100:102 -o first && tail -n 1 first/op.csv
"$T" export long.tape --to dot --ops 39998:40000 | grep op39999
"$T" export long.tape --to dot --ops 20000:20001 2>&1 >/dev/null | sed 's,: .*/,: ,'
