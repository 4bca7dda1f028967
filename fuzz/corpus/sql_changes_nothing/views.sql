SELECT * FROM alive; SELECT * FROM gap; SELECT * FROM largest; SELECT * FROM time_by_name; SELECT * FROM lifetime; SELECT * FROM meta
