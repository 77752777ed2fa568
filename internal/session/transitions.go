package session

// transitions is the life of a call: which status may follow which.
// docs/state.md draws it.
var transitions = map[CallStatus]map[CallStatus]bool{
	Requested: {
		Running:  true, // claimed by the innermost handler
		Pending:  true, // a layer paused, or the body of a tool that needs no claim
		Settled:  true, // refused, cancelled, or run without a claim
		Answered: true, // an early answer outlived the body that would have written its pause
	},
	Running: {
		Requested: true, // the claim was taken back: its body was not entered
		Pending:   true, // the body asked for a pause
		Answered:  true, // an early answer outlived a crash; or the claim was taken back
		Settled:   true, // the body returned, or its outcome is given up
	},
	Pending: {
		Answered: true, // Resume; a deadline that re-enters the tool, as a timer's does
		Settled:  true, // Cancel, Fail, any other deadline, superseded by a message, the run ended
	},
	Answered: {
		Running: true, // claimed for re-entry
		Pending: true, // a layer, or the tool, asks again
		// In output mode; denied, or the arguments changed; cancelled; or run
		// without a claim.
		Settled: true,
	},
}
