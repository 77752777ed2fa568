// Package workflow has lists of steps carried out as sessions: a workflow is a
// session whose model is its list, and each step is a child of it. A step is
// begun when what it refers to is there, so steps that don't depend on each
// other run beside each other.
//
// All that holds of sessions and their children holds here: what was committed
// survives a crash, a step may wait for a month, people answer below the
// workflow, and a tool's body is entered as often as its effect allows.
//
// [New] builds a workflow in Go. A [Set] runs lists that come from outside, such
// as a model's. The package is small on purpose: no loops, no conditions, no
// code between the steps. What needs those is an agent, a tool, or a workflow
// engine.
package workflow

// Where things are:
//
//   - what users write: list.go, build.go, reference.go, set.go, tool.go
//   - what is refused at the start: check.go, types.go
//   - what happens next, by what has happened: progress.go, plan.go, unwind.go;
//     the model that does so: model.go
//   - the tools that the model calls: steptool.go, waittool.go, endtool.go
//   - JSON: pointer.go
