package wide

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// What is stored, and under which keys. All begin with "W", and the second part
// says what it is.
//
//	r scope name                    handle
//	w scope name session            calls of a session that wait for its end
//	h scope name session pause      claim of a call on one of its permits
//	q scope name priority number    claim that waits: the session and the pause
//	g scope name session pause      permit that was given, and of which the call isn't told
//	d time scope name               what is to end or to tell, and when
//	e time scope name               what is to be removed, and when
//	i scope filter created name     index of a list
//	s scope shard                   counts, and the number of the last change
//	l scope shard number            change
const kind = "W"

func handleKey(id ID) []byte { return kvstore.Key(kind, "r", id.Scope, id.Name) }

func waitersPrefix(id ID) []byte { return kvstore.Key(kind, "w", id.Scope, id.Name) }

func waiterKey(id ID, session string) []byte {
	return kvstore.Key(kind, "w", id.Scope, id.Name, session)
}

// The indexes of what is due. What is to be removed stands in one of its own,
// since an archive may be slow, and nothing else is to stand behind that.
const (
	dueIndex     = "d"
	removedIndex = "e"
)

func dueKey(index string, at time.Time, id ID) []byte {
	return kvstore.Key(kind, index, millis(at), id.Scope, id.Name)
}

// dueKey returns where the handle stands among what is due; nil: nowhere.
func (h *Handle) dueKey() []byte {
	switch u := &h.Upkeep; {
	case u.Due.IsZero():
		return nil
	case h.End != nil && !u.Tells:
		return dueKey(removedIndex, u.Due, h.ID())
	default:
		return dueKey(dueIndex, u.Due, h.ID())
	}
}

func indexKey(filter string, h *Handle) []byte {
	return kvstore.Key(kind, "i", h.Scope, filter, millis(h.Created), h.Name)
}

func shardKey(scope string, shard int) []byte {
	return kvstore.Key(kind, "s", scope, fmt.Sprintf("%02d", shard))
}

func changesPrefix(scope string, shard int) []byte {
	return kvstore.Key(kind, "l", scope, fmt.Sprintf("%02d", shard))
}

func changeKey(scope string, shard, number int) []byte {
	return kvstore.Key(kind, "l", scope, fmt.Sprintf("%02d", shard), fmt.Sprintf("%014d", number))
}

// shards is how many parts the counts and the log of a scope have.
const shards = 16

// shardOf returns the part that a name belongs to.
func shardOf(name string) int {
	h := fnv.New32a()
	h.Write([]byte(name))
	return int(h.Sum32() % shards)
}

// millis is a time as text that sorts.
func millis(t time.Time) string { return fmt.Sprintf("%014d", max(0, t.UnixMilli())) }

// atOnce returns the place of what is due at once: before every time that a
// clock may show, in the order in which it became due.
func atOnce(now time.Time) time.Time { return time.UnixMilli(now.Unix()).UTC() }
