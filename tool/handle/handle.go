// Package handle has tools that run for long: what a model starts, watches,
// gives input, and stops.
//
// A [Process] is such a tool with a live body, and [Live] makes it a
// [tool.Tool]. [Command] is the Process that ships: a program.
package handle

// Where things are: stateful.go and action.go (a tool of which handles are
// begun); process.go (the interfaces), live.go (a Process as a tool), host.go
// and gathered.go (how it reaches the runner); command.go, program.go and
// launcher.go (how a command is made and started), running.go (its body),
// answering.go (how it gets answers), ends.go (output that is kept), input.go
// (what is written to it), lines.go and older.go (the protocol that it may
// speak), terminal.go (its body in a terminal) and keys.go (what is typed
// there).
