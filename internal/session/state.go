// Package session is what is durable of a conversation, and the rules by which
// it changes. [State], the head, is a small record that holds all that decides
// what happens next; [Next] reads it off. A change is a pure function on a
// [Tx], the head in the making. [Store] commits it together with the messages,
// call records, receipts and index entries that belong to it, over any
// kvstore.Store.
//
// The package runs nothing: package runner calls models and tools.
package session

// Where things are:
//
//   - the head, and the step that follows from it: state.go, next.go; what a
//     sound record is: sound.go; records as JSON: record.go
//   - transitions: tx.go, the table in transitions.go; those of the driver:
//     turn.go, said.go, call.go, pausing.go, ahead.go, settle.go; those of any
//     caller: answer.go, operations.go; of time: deadline.go, heartbeat.go; of
//     lost calls: again.go; of tries that failed: tried.go; of calls without
//     their tool: parked.go; what their tools call off: undo.go, undolist.go;
//     what the model reads of them: text.go
//   - the one writer: head.go, change.go; payloads: blob.go; heads too large
//     for their place: aside.go; the way to the engine: engine.go,
//     outage.go; its keys: keys.go
//   - the lease: lease.go; the right to change its head: slot.go, commit.go;
//     when it is lost: standing.go, leaseclock.go; what others have committed:
//     news.go, bell.go; what an engine has beside its store: signals.go,
//     steady.go; a transaction of the user's own: within.go; how workers know
//     each other: workers.go
//   - drives that died: takeover.go, seen.go, watch.go, recovery.go,
//     dueagents.go
//   - the store: store.go, listeners.go, read.go, duefrom.go, list.go,
//     pending.go, inbox.go, tree.go, message.go, receipt.go, schema.go,
//     keyring.go, errors.go
//   - children: child.go, childend.go, leftnow.go, unmoved.go; what one session
//     owes another: outbox.go, undelivered.go, letters.go, endevent.go
//   - handles, which are children of one call: handle.go, handlestore.go; their
//     names: names.go; waiting for them: awaiting.go, moment.go; those of wider
//     scopes: widewaits.go; before a call's body: beforebody.go; at the end of
//     a run: linger.go; ending them: abort.go; what is given to them: given.go;
//     what is told of them: notices.go; wait handles: waits.go, waitlist.go,
//     waitdue.go, waitend.go
//   - events for open calls: mail.go, mailstore.go; answers that came before
//     their pauses: kept.go
//   - what the outside is told: notification.go; sending it: sending.go,
//     senderlease.go; what can't be sent: deadletters.go
//   - messages of the user that wait: queue.go, queuing.go, queuestore.go
//   - upkeep: check.go, checkchild.go, checkhandle.go, checkwaits.go, sweep.go,
//     sweephandle.go, sweepschema.go, sweepinbox.go, sweephomeless.go,
//     checknotified.go, sweepnotified.go, delete.go

import (
	"slices"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// Version is the version of the records that this package writes, where they
// hold nothing that an older version would misread.
const Version = 1

// newestVersion is the newest version of a head that this package reads. A head
// takes it with the first thing that an older program must not pass over, and
// keeps it. Version 2 is that of a signpost, see aside.go.
const newestVersion = 3

// State is the head of a session: everything that decides what happens next,
// and no history. It stays small: payloads above 1 KiB lie elsewhere, and a
// [Blob] says where. One that grows large all the same, because much was said
// of many calls, is written in several pieces.
type State struct {
	Version int       `json:"v"`
	ID      string    `json:"id"`
	User    string    `json:"user"`
	Agent   string    `json:"agent,omitzero"`
	Created time.Time `json:"created"`
	Hidden  bool      `json:"hidden,omitzero"`  // see Filter.Hidden
	Deleted time.Time `json:"deleted,omitzero"` // the rest is gone; this is the tombstone

	Generation int  `json:"gen,omitzero"` // of the history; compaction begins a new one
	Messages   int  `json:"msgs"`         // in the history; the number of the next one
	Turn       int  `json:"turn"`         // model messages so far, over all generations
	Due        bool `json:"due,omitzero"` // the model's answer is due, once no call is open

	// The open turn: the calls of the last message, until all are settled.
	Calls    []Call    `json:"calls,omitempty"`
	Asked    time.Time `json:"asked,omitzero"`     // when they were asked for
	TokenKey int       `json:"token_key,omitzero"` // the newest key at that time

	Run    Run          `json:"run,omitzero"`
	Retry  *Retry       `json:"retry,omitzero"`  // the model failed in a way that may pass
	Finish event.Finish `json:"finish,omitzero"` // of the last run, once it is over
	Why    string       `json:"why,omitzero"`    // with FinishOther: the provider's word
	Ended  time.Time    `json:"ended,omitzero"`  // when the last run ended, once it has
	Halt   *Halt        `json:"halt,omitzero"`   // has a Why of its own
	Unseen *Unseen      `json:"unseen,omitzero"` // results of a closed turn that no drive has shown
	Ending *Halt        `json:"ending,omitzero"` // what Halt is to be when the open turn is closed

	Parent   *Parent `json:"parent,omitzero"`   // of a child
	Children int     `json:"children,omitzero"` // made so far
	// EndEvents are those that are owed once the run is over, see endevent.go.
	EndEvents []EndEvent `json:"end_events,omitempty"`

	Outbox   []Errand `json:"outbox,omitempty"`  // see outbox.go
	Handles  int      `json:"handles,omitzero"`  // that have not stopped, see handle.go
	Waits    []WaitN  `json:"waits,omitempty"`   // how many wait handles there are, see waitlist.go
	Kept     int      `json:"kept,omitzero"`     // of those, which no run waits for
	Telling  int      `json:"telling,omitzero"`  // of those, of whose content the model is told
	Linger   *Linger  `json:"linger,omitzero"`   // the run would end but for them, see linger.go
	Lingered int      `json:"lingered,omitzero"` // the last Linger.Turn
	Aborts   int      `json:"aborts,omitzero"`   // how often some of them were to be ended
	Queue    *Queue   `json:"queue,omitzero"`    // messages of the user that wait, see queue.go
	// notices about them: made so far, the last that a run doesn't end before,
	// and told
	Notices     int `json:"notices,omitzero"`
	Wakes       int `json:"wakes,omitzero"`
	NoticesTold int `json:"notices_told,omitzero"`
	// of those that were told, how many are deleted: a commit deletes some
	NoticesGone int `json:"notices_gone,omitzero"`

	// The drive that holds the session, and the count of all that did. Held is
	// as the last commit stored it: a drive that died leaves it set.
	Epoch int  `json:"epoch,omitzero"`
	Held  bool `json:"held,omitzero"`

	// Where leases are stored. LeaseEnd is by the holder's clock, and so a
	// hint.
	LeaseEnd time.Time `json:"lease_end,omitzero"`
	Lease    int       `json:"lease,omitzero"` // its length in milliseconds
	Beat     int       `json:"beat,omitzero"`  // greater with each commit of the holder
	Bell     string    `json:"bell,omitzero"`  // of the holder's process, see bell.go
	Rung     bool      `json:"rung,omitzero"`  // it was rung since the holder's last commit

	// Where leases are not stored: the engine's incarnation at the last commit.
	Incarnation uint64 `json:"incarnation,omitzero"`

	// With Held: the drive was told to end, and only bodies of it run on.
	EndedInOrder bool `json:"left,omitzero"`

	// Drives that died; takeover.go has the rules.
	Takeovers int       `json:"takeovers,omitzero"`  // since the last progress
	Deadly    int       `json:"deadly,omitzero"`     // the last in a row that may have died of it
	TakenOver time.Time `json:"taken_over,omitzero"` // when a drive followed the last of them

	// Where the session stands in the indexes.
	Missing []string  `json:"missing,omitempty"` // tools of the parked index, in order
	Wake    time.Time `json:"wake,omitzero"`     // in the wake index, see atOnce; zero: nowhere
	Watched bool      `json:"watched,omitzero"`  // in the index of what is watched, see watch.go
	// in the recovery index, under which incarnation, see recovery.go; zero: nowhere
	Recovery uint64 `json:"recovery,omitzero"`

	Notified int `json:"notified,omitzero"` // notifications so far, see notification.go

	Commits commits `json:"commits"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// Run counts what the current run has used of its agent's limits.
type Run struct {
	Turns int       `json:"turns,omitzero"`
	Calls int       `json:"calls,omitzero"`
	Usage llm.Usage `json:"usage,omitzero"`
	// tokens of Usage that no longer count towards a limit
	Waived      int  `json:"waived,omitzero"`
	Detached    bool `json:"detached,omitzero"`    // a worker carries it on when its caller leaves
	Concurrency int  `json:"concurrency,omitzero"` // calls of a turn at once; 0: as its agent has it
	// how often the model was asked what is to become of handles
	Inquiries int `json:"inquiries,omitzero"`
	// children that it goes on without, and whose ends have not come
	Leaving []string `json:"leaving,omitempty"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// Tokens returns how many tokens count towards a limit.
func (r *Run) Tokens() int { return r.Usage.Total() - r.Waived }

// Retry is when a model that failed in a way that may pass is called again.
type Retry struct {
	Failures int       `json:"failures"`       // in a row
	Since    time.Time `json:"since,omitzero"` // the first of them
	At       time.Time `json:"at"`
	Wait     int       `json:"wait,omitzero"` // at most so many milliseconds, whatever clocks show
	Why      string    `json:"why"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// Halt keeps workers off a session that has work left; Continue and Run lift
// it.
type Halt struct {
	Finish event.Finish `json:"finish"`      // interrupted, failed, cancelled, or a limit
	Actor  string       `json:"by,omitzero"` // of a cancellation: who did it
	Why    string       `json:"why,omitzero"`
	At     time.Time    `json:"at"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// Unseen is what a drive without a listener settled, and whose turn it
// closed: the next drive shows it.
type Unseen struct {
	Message int      `json:"msg"`   // the number of the message with the results
	Calls   []string `json:"calls"` // in call order

	Rest strictjson.Rest `json:"-"` // of a later version
}

// names reports whether the call is one of them. U may be nil.
func (u *Unseen) names(call string) bool { return u != nil && slices.Contains(u.Calls, call) }

// Call is a tool call of the open turn. Its arguments stand in the message that
// asked, its result in its call record.
type Call struct {
	ID        string       `json:"id"`
	Tool      string       `json:"tool"`
	Status    CallStatus   `json:"status"`
	Effect    tool.Effect  `json:"effect,omitzero"`
	Output    string       `json:"out,omitzero"` // hash of the output schema, if it may pause
	MayPause  bool         `json:"may_pause,omitzero"`
	Attempt   int          `json:"attempt,omitzero"` // durable claims so far
	Epoch     int          `json:"epoch,omitzero"`   // of the drive that made the last one
	Pauses    int          `json:"pauses,omitzero"`  // so far
	Pause     *Pause       `json:"pause,omitzero"`   // the open one, while pending
	Answer    *Answer      `json:"answer,omitzero"`  // to the tool's own last pause
	Early     *Answer      `json:"early,omitzero"`   // to the pause that has not been written yet
	Decisions []Decision   `json:"decisions,omitempty"`
	Again     []Again      `json:"again,omitempty"`   // one for each lost entry that did not happen
	Tried     *Tried       `json:"tried,omitzero"`    // the tries that the last entry has failed
	Actions   []*Blob      `json:"actions,omitempty"` // the body's, before it paused; each a list
	Mailbox   *Mailbox     `json:"mailbox,omitzero"`  // of a tool that takes events, see mail.go
	Cancel    *Cancel      `json:"cancel,omitzero"`   // asked for while the body runs
	Settled   event.Status `json:"settled,omitzero"`
	// an action, perhaps of the end, has media for the model
	Media   bool `json:"media,omitzero"`
	Unshown bool `json:"unshown,omitzero"` // settled, and no drive has shown it
	// no events tell of it, but for its pauses
	Background bool `json:"background,omitzero"`
	// the agent that takes the session over once the turn is closed
	HandTo string `json:"hand_to,omitzero"`
	// the session that its open pause has made, and waits for
	Child string `json:"child,omitzero"`
	// Of a call that acts on a handle: what it does, and the handle's name. With
	// Clash it is refused: the name is taken, or would be given twice.
	Action string `json:"action,omitzero"`
	Handle string `json:"handle,omitzero"`
	Clash  bool   `json:"clash,omitzero"`
	// the session of that handle, since the call was asked for; empty: no handle
	// had the name
	Bound string `json:"bound,omitzero"`
	// Of a call that awaits handles: the places in the turn of the calls that
	// begin some of them.
	Binds []int `json:"binds,omitempty"`
	// what it holds of wait handles until it settles, see widewaits.go
	Permits []HeldPermit `json:"permits,omitempty"`
	// the agent had no such tool when it was asked for
	Invented bool    `json:"invented,omitzero"`
	Parked   *Parked `json:"parked,omitzero"` // the agent has its tool no more

	Rest strictjson.Rest `json:"-"` // of a later version
}

// CallStatus is where a call stands in its life; docs/state.md has the diagram,
// transitions.go the table.
type CallStatus string

// The statuses.
const (
	// Requested: nothing has run. Of a tool that needs no claim: nothing whose
	// outcome is known.
	Requested CallStatus = "requested"
	Running   CallStatus = "running"  // durably claimed; the body may have been entered
	Pending   CallStatus = "pending"  // paused
	Answered  CallStatus = "answered" // the pause is over, the call goes on
	Settled   CallStatus = "settled"  // it has its result
)

// Pause is the open pause of a call.
type Pause struct {
	Reason tool.Reason `json:"reason"`
	Mode   tool.Mode   `json:"mode"`
	Prompt *Blob       `json:"prompt,omitzero"` // a JSON string
	// hash; at a gate, of what edited arguments must fit
	Schema   string    `json:"schema,omitzero"`
	Key      string    `json:"key,omitzero"`
	Gate     string    `json:"gate,omitzero"`
	Sender   string    `json:"sender,omitzero"`   // whose answers alone it takes
	Question string    `json:"question,omitzero"` // its name among the tool's
	Data     *Blob     `json:"data,omitzero"`
	Shown    string    `json:"shown,omitzero"` // at a gate: hash of the arguments shown
	Args     *Blob     `json:"args,omitzero"`  // at a gate: those, if not the call's own
	Undo     *Blob     `json:"undo,omitzero"`  // the arguments that ran, if its tool has a Cancel
	Since    time.Time `json:"since"`
	Deadline time.Time `json:"deadline,omitzero"`
	Beat     *Beat     `json:"beat,omitzero"`   // until when its job must be heard of
	Remind   time.Time `json:"remind,omitzero"` // where its reminder stands in its index
	// what the deadline comes to; empty: the call expires
	OnTimeout tool.OnTimeout `json:"on_timeout,omitzero"`
	Agent     string         `json:"agent,omitzero"` // of the child that it waits for
	// an early answer did not fit, and has its receipt
	Refused bool `json:"refused,omitzero"`
	// it is listed among those that machines end, and not in the inbox
	Machine bool `json:"machine,omitzero"`
	// the events that it waits for; no answer of another kind
	Mail *tool.MailWait `json:"mail,omitzero"`
	// the handles that it waits for; no answer of another kind
	Await *Awaiting `json:"await,omitzero"`
	// at a gate: whose decisions alone it takes; empty: those of all
	Approvers []string `json:"approvers,omitempty"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// Answer is what came for a tool's own pause.
type Answer struct {
	Pause    int       `json:"pause"` // its number
	Kind     Kind      `json:"kind"`
	Mode     tool.Mode `json:"mode,omitzero"` // of the pause; empty while the answer is early
	Payload  *Blob     `json:"payload,omitzero"`
	Data     *Blob     `json:"data,omitzero"`   // the pause's own
	Prompt   *Blob     `json:"prompt,omitzero"` // of a question, a JSON string, to ask again
	Question string    `json:"question,omitzero"`
	// of a question, those of its pause, to ask again
	Deadline  time.Time      `json:"deadline,omitzero"`
	OnTimeout tool.OnTimeout `json:"on_timeout,omitzero"`
	Hash      string         `json:"hash,omitzero"` // of the payload, as receipts have it
	Actor     string         `json:"by,omitzero"`
	Delivery  string         `json:"delivery,omitzero"`
	Retryable bool           `json:"may_pass,omitzero"` // of a failure
	Sender    string         `json:"sender,omitzero"`   // while it is early: who signed it
	At        time.Time      `json:"at"`
	// The entry that it leads to is shown the events up to number Mail, of
	// which those up to MailFrom were shown before.
	Mail     int `json:"mail,omitzero"`
	MailFrom int `json:"mail_from,omitzero"`
	// of an await that was ended before its time
	Interrupted bool `json:"interrupted,omitzero"`
	// the pause was for a permit, and the body was not entered before
	Unbegun bool `json:"unbegun,omitzero"`
	// what the entry that it leads to has given back, and waits for if it is entered
	// once more
	GivenBack []HeldPermit `json:"given_back,omitempty"`
	// the handles that its pause waited for: a []Awaited
	Awaited *Blob `json:"awaited,omitzero"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// Decision is a decision with its larger values in payloads.
type Decision struct {
	tool.Decision
	Edited *Blob `json:"edited,omitzero"` // in place of Decision.Arguments
	Why    *Blob `json:"why,omitzero"`    // in place of Decision.Reason; a JSON string
	Pause  int   `json:"pause"`           // the number of the pause that it answered

	Rest strictjson.Rest `json:"-"` // of a later version
}

// Parked is since when a call waits for its tool to come back, and until when.
type Parked struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"` // zero: for ever

	Rest strictjson.Rest `json:"-"` // of a later version
}

// Cancel is a cancellation that waits for the body to end.
type Cancel struct {
	Actor string    `json:"by,omitzero"`
	Why   string    `json:"why,omitzero"`
	At    time.Time `json:"at"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// Call returns the open turn's call of that id, or nil.
func (s *State) Call(id string) *Call {
	for i := range s.Calls {
		if s.Calls[i].ID == id {
			return &s.Calls[i]
		}
	}
	return nil
}

// Open counts the calls that wait for an answer.
func (s *State) Open() int {
	n := 0
	for i := range s.Calls {
		if s.Calls[i].Status == Pending {
			n++
		}
	}
	return n
}
