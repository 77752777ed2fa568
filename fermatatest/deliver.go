package fermatatest

import (
	"errors"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/event"
	core "github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// The outcomes of an input, beside the refusals of package session.
const (
	accepted = "accepted"
	absent   = "there is no such call"
	failed   = "failed"
)

// deliver delivers an input, again and again while faults keep it from being
// accepted or refused. It reports whether all of it was accepted, now or
// before.
func (l *life) deliver(i int, in Input) bool {
	var got []string
	l.mu.Lock()
	l.begun[i] = true
	l.mu.Unlock()
	for range maxTries {
		var err error
		got, err = l.try(in)
		if !errors.Is(err, session.ErrBusy) {
			l.note("life %d: %s: %s%s", l.number, in.name, strings.Join(got, ", "), ended(err))
		}
		if l.dead() {
			return false
		}
		if err == nil {
			break
		}
		if !l.retries(err) {
			break
		}
	}
	l.judge(i, in, got)
	for _, g := range got {
		if g != accepted {
			return false
		}
	}
	return true
}

// ended tells of an error behind what was got.
func ended(err error) string {
	if err == nil {
		return ""
	}
	return ", with " + err.Error()
}

// try delivers an input once. With an error it was neither accepted nor
// refused, or the run that it began has failed.
func (l *life) try(in Input) (got []string, err error) {
	switch in.kind {
	case isTime:
		l.pass(l.Now().Add(in.time))
		return []string{accepted}, nil
	case isMessage:
		o := in.o
		o.MessageID = in.id
		err = l.watch(l.runner.Run(l.ctx, theUser, l.s.root(), llm.UserText(in.text), &o))
		if got, refused := refusal(err); refused {
			return []string{got}, nil
		}
		return []string{accepted}, err
	case isSent:
		_, err = l.runner.Send(l.ctx, theUser, l.s.root(), llm.UserText(in.text),
			&runner.SendOptions{MessageID: in.id, While: in.while})
	case isAnswer:
		return l.answer(in)
	case isEvents:
		return l.send(in)
	case isSweep:
		_, err = l.store.Sweep(l.ctx, &in.keep)
		if errors.Is(err, kvstore.ErrUncertain) { // the next sweep does what this one has not
			err = errors.Join(err, faultkv.ErrFault)
		}
	default:
		id, call := l.session(in.target), ""
		if in.kind == isCancel || in.kind == isProgress {
			call = l.call(in.target)
		}
		if id == "" || call == "" && in.target.tool != "" {
			return []string{absent}, nil
		}
		err = l.operation(in, id, call)
	}
	if err == nil {
		return []string{accepted}, nil
	}
	if got, refused := refusal(err); refused {
		return []string{got}, nil
	}
	return []string{failed}, err
}

// operation carries out what an input does to a session, or to a call of it.
func (l *life) operation(in Input, id, call string) error {
	switch in.kind {
	case isProgress:
		return l.runner.Progress(l.ctx, id, call, "test", in.report)
	case isEnd:
		return l.runner.CancelSession(l.ctx, id, "ops", in.why)
	case isDelete:
		return l.runner.Delete(l.ctx, id, "ops")
	}
	r, err := l.runner.Cancel(l.ctx, id, call, "ops", in.why)
	if err == nil {
		l.acknowledge(r)
	}
	return err
}

// answer delivers answers, by the tokens of their pauses where a body has given
// those away.
func (l *life) answer(in Input) (got []string, err error) {
	got = make([]string, len(in.answers))
	id := l.session(in.target)
	var rs []runner.Resumption
	var at []int
	for i, a := range in.answers {
		call := l.call(a.target)
		if call == "" {
			got[i] = absent
			continue
		}
		a.Pause = core.PauseID(call, a.pause)
		if err := l.find(a.Pause); err != nil {
			return []string{failed}, err
		}
		rs, at = append(rs, a.Resumption), append(at, i)
	}
	if len(rs) == 0 {
		return got, nil
	}
	res, err := l.runner.Resume(l.ctx, id, rs...)
	return l.sent(in, got, at, res, err)
}

// send delivers events.
func (l *life) send(in Input) (got []string, err error) {
	got = make([]string, len(in.mail))
	call, mail := l.call(in.target), slices.Clone(in.mail)
	var at []int
	for i := range mail {
		mail[i].Call = call
		got[i], at = absent, append(at, i)
	}
	if call == "" {
		return got, nil
	}
	res, err := l.runner.Deliver(l.ctx, l.session(in.target), mail...)
	return l.sent(in, got, at, res, err)
}

// sent takes what became of a Resume or a Deliver, whose receipts are for the
// outcomes at the places given, and drives the session on.
func (l *life) sent(
	in Input, got []string, at []int, res *runner.Resumed, err error,
) ([]string, error) {
	if res == nil {
		if name, refused := refusal(err); refused {
			return []string{name}, nil
		}
		return []string{failed}, err
	}
	for i, r := range res.Receipts {
		got[at[i]] = accepted
		if r.Err != nil {
			got[at[i]], _ = refusal(r.Err)
			continue
		}
		l.acknowledge(r)
	}
	if err != nil || in.undriven || in.moment != inTurn && l.busy(in.target) {
		return got, nil
	}
	return got, l.watch(res.Events(l.ctx))
}

// busy reports whether another drive has the session, so that this input needs
// none. Where it comes for a session below the root, a caller that watches the
// root sees it go on.
func (l *life) busy(t target) bool {
	if len(t.path) > 0 && l.watching.Load() > 0 {
		return true
	}
	st, err := l.store.Load(l.ctx, l.s.root())
	if err != nil {
		return true
	}
	driven, _ := l.store.Driven(st)
	return driven
}

// find checks that a pause's token finds that pause.
func (l *life) find(pause string) error {
	l.mu.Lock()
	token := l.tokens[pause]
	l.mu.Unlock()
	if token == "" {
		return nil
	}
	p, err := l.runner.Find(l.ctx, runner.Ref{Token: token}, "test")
	if err == nil && p.ID != pause {
		l.violation("the token of pause %s finds %s", pause, p.ID)
	}
	return err
}

// judge compares the outcome of an input with that in the uncut history.
func (l *life) judge(i int, in Input, got []string) {
	l.mu.Lock()
	l.outcomes[i] = got
	l.mu.Unlock()
	if l.uncut == nil {
		if slices.Contains(got, absent) {
			l.violation("%s comes when there is no such call", in.name)
		}
		return
	}
	want := l.uncut.outcomes[i]
	for j := range want {
		switch {
		case len(got) == len(want) && got[j] == want[j]:
		case len(got) == len(want) && got[j] != accepted && want[j] != accepted && l.number > 1:
			// The reason of the refusal is past.
		case in.kind == isProgress && got[0] == refusalName(session.ErrSettled):
			// The report was on its way for long.
		case l.s.Diverges && (len(l.lostCalls()) > 0 || l.hasLostBelow()), l.aimsAtLost(in):
		default:
			l.violation("%s: %q; in the uncut history: %q", in.name, got, want)
			return
		}
	}
}

// tried reports whether an input was delivered before, with or without success.
func (l *life) tried(i int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun[i]
}

// accepted reports whether the sender of an input was told that it is accepted.
func (l *life) accepted(i int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.outcomes[i], accepted)
}

// refused reports whether the sender of an input was told that all of it is
// refused.
func (l *life) refused(i int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.outcomes[i]) > 0 && !slices.Contains(l.outcomes[i], accepted) &&
		!slices.Contains(l.outcomes[i], failed)
}

// aimsAtLost reports whether an input is for a call whose outcome may be
// unknown.
func (l *life) aimsAtLost(in Input) bool {
	targets := []target{in.target}
	for _, a := range in.answers {
		targets = append(targets, a.target)
	}
	return slices.ContainsFunc(targets, l.isLost)
}

// isLost reports whether the outcome of a call may be unknown. Below the root a
// fault ends a drive of which the life isn't told.
func (l *life) isLost(t target) bool {
	id, call := l.session(t), l.call(t)
	l.mu.Lock()
	lost := l.lost[call]
	l.mu.Unlock()
	if lost || !l.way.interrupts || len(t.path) == 0 || call == "" {
		return lost
	}
	c, err := l.runner.Call(l.ctx, id, call, "test")
	return err == nil && c.Settled == event.Unknown
}

// hasLostBelow reports whether the outcome of a call below the root is unknown,
// as far as isLost knows of such.
func (l *life) hasLostBelow() bool {
	if !l.way.interrupts {
		return false
	}
	all, err := l.family()
	if err != nil {
		return false
	}
	for _, st := range all {
		for _, asked := range l.callsOf(st.ID) {
			if st.Parent == nil {
				continue
			}
			c, err := l.runner.Call(l.ctx, st.ID, asked.ID, "test")
			if err == nil && c.Settled == event.Unknown {
				return true
			}
		}
	}
	return false
}

// refusals are the errors by which an input is refused.
var refusals = []error{
	session.ErrResumeConflict, session.ErrInvalidResumePayload, session.ErrPauseRequired,
	session.ErrNotYetKnown, session.ErrMessageConflict, session.ErrInvalidMessage,
	session.ErrPending, session.ErrWrongUser, session.ErrCancelled,
	session.ErrExpired, session.ErrSettled, session.ErrNotPaused,
	session.ErrUnknownPause, session.ErrUnknownCall, session.ErrUnknownEvent,
	session.ErrMailboxFull, session.ErrQueueFull, session.ErrDeleted, session.ErrUnknownSession,
}

func refusal(err error) (name string, refused bool) {
	for _, r := range refusals {
		if errors.Is(err, r) {
			return refusalName(r), true
		}
	}
	return "", false
}

func refusalName(err error) string { return strings.TrimPrefix(err.Error(), "session: ") }
