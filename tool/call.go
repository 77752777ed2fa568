package tool

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/fermata-ai/fermata/llm"
)

// Call is one call of a tool, as its body and the layers around it see it.
type Call struct {
	ID, Session, User, Tool string
	Effect                  Effect
	Turn                    int // the turn of the session, from 1
	// Attempt counts durable claims of the call, from 1; it stays 1 where the
	// effect needs none.
	Attempt int
	// Fence grows with every drive of the session, and is the same for all
	// bodies of one drive. An outside system keeps the greatest fence it has
	// seen of a session, and refuses what comes with a smaller one. That keeps
	// out a body whose drive has lost the session: its process was stopped,
	// say, between the last look at the lease and the body's first line, and
	// woke up when another drive had taken over. Zero in unit tests.
	Fence     int64
	Pauses    int // how many times the call has paused
	Arguments json.RawMessage
	Answer    *Answer    // to the tool's own last pause; nil at first entry
	Tried     Tried      // zero, unless this entry was tried before
	Decisions []Decision // what layers were told
	// Mail is the outside events that have come for the call, up to the answer
	// that this entry brings, in the order in which they were accepted. At
	// first entry there are none: those that came before it count for the first
	// pause.
	Mail []Mail
	// Gate names the layer that has the call just now, as Await.Gate names the
	// one that asked; empty in the tool's body.
	Gate string
	Host Host // nil in unit tests

	checked *checked // arguments that were found valid
}

// Answer is what a Resume delivered for the tool's own pause.
type Answer struct {
	Pause int `json:"pause"` // the pause's number, from 1
	// Mode is what the answer does: it is the output, or the tool is entered
	// again with it.
	Mode    Mode            `json:"mode,omitempty"`
	Payload json.RawMessage `json:"payload"`        // a JSON value that fits the pause's schema
	Data    json.RawMessage `json:"data,omitempty"` // the Await's own
	// Question is the Await's: which of the tool's questions was answered.
	Question string `json:"question,omitempty"`
	// Prompt is the Await's, where the tool is entered again.
	Prompt string `json:"prompt,omitempty"`
	// Deadline is, of a Question, until when it would have waited, and OnTimeout
	// the Await's: where it is asked again, it waits no longer.
	Deadline  time.Time `json:"deadline,omitzero"`
	OnTimeout OnTimeout `json:"on_timeout,omitempty"`
	// TimedOut: no answer came until the pause's deadline, and the pause has
	// Await.OnTimeout for that. The payload is null.
	TimedOut bool `json:"timed_out,omitempty"`
	// Interrupted: a pause for handles ended before its time. The payload is
	// null.
	Interrupted bool      `json:"interrupted,omitempty"`
	Actor       string    `json:"by,omitempty"`
	At          time.Time `json:"at"`
}

// Output reports whether the answer is the call's output, so that the tool is
// not entered. Of no answer it is false.
func (a *Answer) Output() bool { return a != nil && a.Mode != "" && a.Mode != ModeReenter }

// Decision is what a person, or a policy, decided at a layer's pause.
type Decision struct {
	Gate     string    `json:"gate,omitempty"` // the layer that asked
	Approved bool      `json:"approved"`
	Reason   string    `json:"reason,omitempty"`
	Actor    string    `json:"by,omitempty"`
	At       time.Time `json:"at"`
	Shown    string    `json:"shown,omitempty"` // HashArguments of what was shown
	// Arguments are edited ones, to run in place of those shown.
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// Decided returns the decision that the layer called gate was given for the
// call.
func (c Call) Decided(gate string) (Decision, bool) {
	for _, d := range c.Decisions {
		if d.Gate == gate {
			return d, true
		}
	}
	return Decision{}, false
}

// HashArguments returns a name of arguments that follows from their bytes: a
// SHA-256, cut to 24 characters.
func HashArguments(args json.RawMessage) string {
	h := sha256.Sum256(args)
	return base64.RawURLEncoding.EncodeToString(h[:18])
}

// IdempotencyKey returns a key for an outside effect. It is equal across
// attempts of one entry of the body, after a crash too, and also where an
// operator states that an attempt did not happen. It differs from entry to
// entry: an entry is told by the answer that it brings. With parts the key
// names several effects of one entry. A try that follows on a ReasonRetry is of
// the same entry.
func (c Call) IdempotencyKey(parts ...string) string {
	entry := 0
	if c.Answer != nil {
		entry = c.Answer.Pause
	}
	return c.keyOf(strconv.Itoa(entry), parts)
}

// keyOf returns the key of one of the call's entries, or of what else it does.
func (c Call) keyOf(of string, parts []string) string {
	key := c.ID + "." + of
	if len(parts) == 0 {
		return key
	}
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(strconv.Itoa(len(p)) + ":" + p))
	}
	return key + "." + base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}

// Token returns a secret by which an outside system may do what is permitted,
// on the next pause of this call and no other, perhaps before the body has
// returned. Without permits it may complete and fail. It is the same in each
// attempt. Without a Host it is a placeholder.
//
// A layer that is about to ask for a decision gets a token for its own pause
// with c.Token(tool.PermitApprove, tool.PermitDeny). That token decides nothing
// at the pause of another layer.
//
// Token panics where a permit makes no sense: one that is unknown, as a
// misspelt one is; one for a link, which is made for what an open pause shows;
// or a decision in a tool's body, whose pauses take none. The call then ends
// with an error rather than wait for what its token can't do.
func (c Call) Token(permits ...Permit) string {
	for _, p := range permits {
		if !p.Known() {
			panic(fmt.Sprintf("tool: Call.Token: %q is no permit; use the constants Permit...", p))
		}
		if p == PermitEvent {
			panic("tool: Call.Token: a token that may send events is made by Call.MailToken")
		}
		if p.Link() {
			panic("tool: Call.Token: the token of a link is for what a pause shows, " +
				"and is made by Runner.MintToken once it is open")
		}
	}
	if c.Host == nil {
		return "token-of-" + c.ID
	}
	if len(permits) == 0 {
		permits = []Permit{PermitComplete, PermitFail}
	}
	return c.Host.Token(c, permits...)
}

// MailToken returns a secret by which an outside system may send events to this
// call: those of the names given, or, without any, all of the tool's Mailbox.
// It does nothing else. It is not for one pause: it is good until the call
// settles, and the same in each attempt and each entry. Without a Host it is a
// placeholder.
//
// MailToken panics where the tool's Mailbox has no event of a name. The call
// then ends with an error rather than wait for what its token can't do.
func (c Call) MailToken(names ...string) string {
	if c.Host == nil {
		return "mail-token-of-" + c.ID
	}
	return c.Host.MailToken(c, names...)
}

// Report stores how far the call is, and shows it to those that follow the
// session. The error is of a progress that is invalid, or of a call that has
// ended; other failures go to the runner's log. Without a Host it does nothing.
func (c Call) Report(ctx context.Context, p Progress) error {
	if c.Host == nil {
		return nil
	}
	return c.Host.Report(ctx, c, p)
}

// History returns the session's messages before the one that asked for the
// call. Without a Host there are none.
func (c Call) History(ctx context.Context) ([]llm.Message, error) {
	if c.Host == nil {
		return nil, nil
	}
	return c.Host.History(ctx, c)
}

// Host is how a call reaches the runtime. The runner implements it.
type Host interface {
	Token(Call, ...Permit) string
	MailToken(Call, ...string) string
	Report(context.Context, Call, Progress) error
	History(context.Context, Call) ([]llm.Message, error)
}
