// Package histories has the life of a call as its callers see it, written down
// once more, and checks histories by it: whether some order of what was done to
// a call, each operation at one moment between its call and its return, explains
// all that callers were told and shown. [Check] does so for histories that
// others record.
//
//   - check.go: what others call, and how porcupine checks the history of a call
//   - model.go, does.go, judge.go, mailmodel.go, state.go: the life of a call
//
// Its own test has many callers do things to the calls of one session at once,
// through two runners on one store:
//
//   - histories_test.go: the test, and what it counts
//   - world_test.go: the session, its tools, its model, its engine, its clock
//   - client_test.go, looks_test.go: what a caller does and sees, and how it is
//     recorded
//   - mail_test.go: outside events, as clients send and bodies see them
//   - tree_test.go, treeclient_test.go, treemodel_test.go: a second test, of a
//     session whose call has an agent work, and of that agent's session
package histories
