// Package histories is one test of the runner: many callers do things to the
// calls of one session at once, through two runners on one store, and what
// they are told must be as if one had come after the other.
//
// It has no code but its tests:
//
//   - histories_test.go: the test, what it counts, and how porcupine checks the
//     history of a call
//   - world_test.go: the session, its tools, its model, its engine, its clock
//   - client_test.go, looks_test.go: what a caller does and sees, and how it is
//     recorded
//   - mail_test.go: outside events, as clients send and bodies see them
//   - model_test.go, does_test.go, judge_test.go, mailmodel_test.go,
//     state_test.go: the life of one call as its callers see it
//   - tree_test.go, treeclient_test.go, treemodel_test.go: a second test, of a
//     session whose call has an agent work, and of that agent's session
package histories
