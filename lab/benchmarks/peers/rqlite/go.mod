module rqlite

go 1.24

require (
	github.com/rqlite/rqlite/v8 v8.36.3
	load v0.0.0
)

replace load => ../load

// As in rqlite's own go.mod, whose replacements do not reach here.
replace github.com/armon/go-metrics => github.com/hashicorp/go-metrics v0.5.1
