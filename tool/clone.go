package tool

import (
	"bytes"
	"slices"
)

// What crosses the edge of the runner is copied there, by these: the code that
// gets a call, or gave a result, may go on writing into it.

// Clone returns a call that shares nothing with c which can be changed.
func (c Call) Clone() Call {
	c.Arguments, c.Answer = bytes.Clone(c.Arguments), c.Answer.Clone()
	c.Decisions = cloneDecisions(c.Decisions)
	c.Mail = cloneMail(c.Mail)
	return c
}

// Clone returns an answer with bytes of its own; nil stays nil.
func (a *Answer) Clone() *Answer {
	if a == nil {
		return nil
	}
	own := *a
	own.Payload, own.Data = bytes.Clone(a.Payload), bytes.Clone(a.Data)
	return &own
}

// cloneMail returns events with payloads of their own.
func cloneMail(mail []Mail) []Mail {
	mail = slices.Clone(mail)
	for i := range mail {
		mail[i].Payload = bytes.Clone(mail[i].Payload)
	}
	return mail
}

// cloneDecisions returns decisions with arguments of their own.
func cloneDecisions(ds []Decision) []Decision {
	ds = slices.Clone(ds)
	for i := range ds {
		ds[i].Arguments = bytes.Clone(ds[i].Arguments)
	}
	return ds
}

// Clone returns an Execution that shares nothing with e which can be changed.
func (e Execution) Clone() Execution {
	e.Output, e.Await, e.Actions = bytes.Clone(e.Output), e.Await.Clone(), cloneActions(e.Actions)
	if e.Handle != nil {
		own := *e.Handle
		own.Begin = bytes.Clone(own.Begin)
		own.Ends, own.Progress = slices.Clone(own.Ends), bytes.Clone(own.Progress)
		if own.Wait != nil {
			w := *own.Wait
			w.Metadata, own.Wait = bytes.Clone(w.Metadata), &w
		}
		e.Handle = &own
	}
	return e
}

// Clone returns an Await with bytes of its own; nil stays nil.
func (a *Await) Clone() *Await {
	if a == nil {
		return nil
	}
	own := *a
	own.Schema, own.Data = bytes.Clone(a.Schema), bytes.Clone(a.Data)
	own.Child = a.Child.Clone()
	own.Arguments, own.Approvers = bytes.Clone(a.Arguments), slices.Clone(a.Approvers)
	if a.Mail != nil {
		own.Mail = &MailWait{Names: slices.Clone(a.Mail.Names), Count: a.Mail.Count}
	}
	if a.Handles != nil {
		w := *a.Handles
		w.All, w.Any = slices.Clone(w.All), slices.Clone(w.Any)
		if w.Permit != nil {
			p := *w.Permit
			w.Permit = &p
		}
		own.Handles = &w
	}
	return &own
}

// cloneActions returns actions with artifacts and media of their own.
func cloneActions(actions []Action) []Action {
	actions = slices.Clone(actions)
	for i := range actions {
		a := &actions[i]
		if a.Artifact != nil {
			own := *a.Artifact
			own.Data = bytes.Clone(own.Data)
			a.Artifact = &own
		}
		if a.Media != nil {
			own := a.Media.Clone()
			a.Media = &own
		}
	}
	return actions
}

// clone returns a Spec with schemas of its own.
func (s Spec) clone() Spec {
	s.Input, s.Output = bytes.Clone(s.Input), bytes.Clone(s.Output)
	s.Mailbox = slices.Clone(s.Mailbox)
	for i := range s.Mailbox {
		s.Mailbox[i].Schema = bytes.Clone(s.Mailbox[i].Schema)
	}
	return s
}

// Clone returns a pause that shares nothing with p which can be changed.
func (p Pause) Clone() Pause {
	p.Arguments, p.Await = bytes.Clone(p.Arguments), *p.Await.Clone()
	p.Path = slices.Clone(p.Path)
	if p.Progress != nil {
		own := *p.Progress
		own.Data = bytes.Clone(own.Data)
		p.Progress = &own
	}
	return p
}
