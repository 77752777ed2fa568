package fakellm

// SamePart is for tests of what the model takes for known: few of the cases are requests that it would take up.
var SamePart = samePart
