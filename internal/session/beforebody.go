package session

// A wait for a permit may come before the body of a call's tool, as that of
// wait.WithPermit does. Until the body is entered for the first time, the call
// has begun nothing: nothing says otherwise, and nothing is called off.

// notEntered reports whether a call that is to wait for a permit has waited for
// nothing but permits so far.
func (c *Call) notEntered() bool {
	if c.Answer == nil {
		return c.Tried == nil
	}
	return c.Answer.Unbegun
}

// beforeBody reports whether the body of a call that is at the pause was not
// entered yet: the call waits for a permit, or to try that again.
func (p *Pause) beforeBody(c *Call) bool {
	if p.Await != nil && p.Await.Permit != nil {
		return p.Await.Permit.Unbegun
	}
	return p.isRetry() && c.waitedInVain()
}

// waitedInVain reports whether the call's last wait, for a permit before its
// body, has ended without one.
func (c *Call) waitedInVain() bool {
	return c.Answer != nil && c.Answer.Unbegun && c.Answer.Kind == KindTimeout
}

// waitsToBegin reports whether the call's body was not entered yet, since it
// waits for a permit, or has waited for one just now.
func (c *Call) waitsToBegin() bool {
	switch c.Status {
	case Pending:
		return c.Pause.beforeBody(c)
	case Answered:
		return c.waitedInVain() || c.Answer != nil && c.Answer.Unbegun && c.Tried == nil
	}
	return false
}
