package session

import (
	"fmt"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/kvstore"
)

// What is stored, and under which keys. All are tuples; the first part says
// what it is.
//
//	h session                     head, or where it lies
//	m session generation number   message, or where it lies
//	c session call                call record, once settled
//	r session call slot           receipt
//	e session call number         event that came for the call
//	d session call name id        receipt of an event, or of what was given to a handle
//	g session call                latest progress
//	p session id chunk            payload
//	u session message-id          content hash and number of a user's message
//	o pause                       pause: session, tool, user, reason
//	i since pause                 the same, while it is open: the inbox of people and operators
//	a since pause                 the same, of what a machine or the time ends
//	j root since pause            as i, of the pauses in the sessions below a root
//	k tool key session call       a tool's own key for its job
//	K tool key                    answers that came before a call had the key
//	E tool key id chunk           the payload of one of them
//	w agent time session          wake index: what is due, and when; the user
//	n agent tool session          parked: a call waits for a tool that is gone
//	v agent session               what is due by the clock of another process
//	l agent incarnation session   recovery index: what drives of one process hold
//	f session child               the children that a session has made
//	z session name                handle: the child of that name
//	Y session type status name    wait handle among others of its type and status
//	y session number              that the model is to be told of a handle
//	q session call                content that the call's body has produced
//	b session call                what a tool could not call off yet
//	V session call pause number   end of a wait handle that an await has counted
//	s hash                        JSON Schema
//	t hash                        when that was last used
//	x name                        of the store as a whole
//	A worker                      that it lives, and the agents it has
//	B bell session                a process is to look at a session that it holds
//	N session number              what one commit tells the outside, from that number on
//	O shard time session          what is to be sent, and when
//	O shard time session pause    when a pause is to be reminded of
//	L session                     who sends, and until when a failure is waited out
//	D session number              what could not be sent
//	Q session line number         message of the user that waits in the queue
//	W ...                         wait handles of wider scopes: package wide
func headKey(session string) []byte            { return kvstore.Key("h", session) }
func recordKey(session, call string) []byte    { return appendRecordKey(nil, session, call) }
func progressKey(session, call string) []byte  { return kvstore.Key("g", session, call) }
func userMessageKey(session, id string) []byte { return kvstore.Key("u", session, id) }
func pauseKey(pause string) []byte             { return kvstore.Key("o", pause) }
func undoKey(session, call string) []byte      { return kvstore.Key("b", session, call) }
func schemaKey(hash string) []byte             { return kvstore.Key("s", hash) }
func schemaUseKey(hash string) []byte          { return kvstore.Key("t", hash) }

func receiptKey(session, call, slot string) []byte {
	return kvstore.Key("r", session, call, slot)
}

func messageKey(session string, generation, number int) []byte {
	return appendMessageKey(nil, session, generation, number)
}

func appendRecordKey(b []byte, session, call string) []byte {
	return kvstore.AppendKey(b, "c", session, call)
}

func appendMessageKey(b []byte, session string, generation, number int) []byte {
	return kvstore.AppendKey(b, "m", session, strconv.Itoa(generation), padded(number, 8))
}

func messagesPrefix(session string, generation int) []byte {
	return kvstore.Key("m", session, strconv.Itoa(generation))
}

func chunkKey(session, id string, chunk int) []byte {
	return kvstore.Key("p", session, id, padded(chunk, 5))
}

func outsideKey(tool, key, session, call string) []byte {
	return kvstore.Key("k", tool, key, session, call)
}

func wakeKey(agent string, at time.Time, session string) []byte {
	return kvstore.Key("w", agent, millis(at), session)
}

func childKey(session, child string) []byte { return kvstore.Key("f", session, child) }

func watchKey(agent, session string) []byte { return kvstore.Key("v", agent, session) }

func recoveryKey(agent string, incarnation uint64, session string) []byte {
	return kvstore.Key("l", agent, fmt.Sprintf("%020d", incarnation), session)
}

func parkedKey(agent, tool, session string) []byte {
	return kvstore.Key("n", agent, tool, session)
}

// millis is a time as text that sorts.
func millis(t time.Time) string { return padded(int(max(0, t.UnixMilli())), 14) }

// padded is n with zeros before it, so that it sorts: at least so many digits.
func padded(n, digits int) string {
	const zeros = "00000000000000"
	s := strconv.Itoa(n)
	return zeros[:max(0, digits-len(s))] + s
}

// maxID is the longest id that a caller may choose for a session, a user or a
// message, in bytes.
const maxID = 128

// CheckID returns what is wrong with an id that a caller chose, as an
// ErrInvalidID. What names the id in the error.
func CheckID(what, id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: the %s is empty", ErrInvalidID, what)
	case len(id) > maxID:
		return fmt.Errorf("%w: the %s is %d bytes long; at most %d are allowed",
			ErrInvalidID, what, len(id), maxID)
	case !utf8.ValidString(id):
		return fmt.Errorf("%w: the %s %q is not valid UTF-8", ErrInvalidID, what, id)
	}
	for _, r := range id {
		if unicode.IsControl(r) {
			return fmt.Errorf("%w: the %s %q has a control character", ErrInvalidID, what, id)
		}
	}
	return nil
}

// parseMillis reads what millis wrote.
func parseMillis(s string) time.Time {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}
