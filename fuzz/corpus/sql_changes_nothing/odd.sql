SELECT * FROM storage, output, mark WHERE mark.op > NULL AND storage.sid = -1 AND output.op >= 1.5
