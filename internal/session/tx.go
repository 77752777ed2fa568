package session

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// Tx is a transition in the making: the head as it will be, and what is written
// beside it in the same commit. A transition is a function on a Tx. It may run
// several times, each time on a fresh head. So its only effects are those on
// the Tx, and on what it tells its caller.
//
// A Tx belongs to the goroutine that changes the head, and is good only during
// the transition: the head reuses it.
type Tx struct {
	*State
	Now time.Time

	outside *Notify // what is told; may be nil
	kv      *engine // to read what lies beside the head
	ctx     context.Context
	update  commitID // that it is a try of; zero: it is to ride, or to be looked at

	puts     []kvstore.Put
	deletes  [][]byte
	only     []kvstore.Precondition // what else must hold, of keys beside the head
	changed  bool                   // there is something to commit
	woke     bool                   // another session is due by it
	owed     bool                   // the outbox holds something new by it, or changed
	told     []Notification         // what the outside is told of it
	reminded [][]byte               // entries of reminders that it takes away
	ends     bool                   // it has a step that may end the run
	large    []large                // payloads too large for this commit; they must be written before
	payloads int                    // bytes of those, and of call records, that are written in this commit
	missed   bool                   // a record was looked for that isn't there
	driven   bool                   // a drive holds the session
	beside   bool                   // another than the driver makes it
	err      error                  // of the first record that could not be encoded
	records  []byte                 // where call records are encoded, and keys are put together
	record   Record                 // the one that is being encoded
}

// large is a payload too large for a commit, and the session that it belongs to.
type large struct {
	session string
	*Blob
}

// since returns what records has from there on, without room to append to it.
func (tx *Tx) since(begins int) []byte { return tx.records[begins:len(tx.records):len(tx.records)] }

// full reports whether no more should ride with the next commit, which must
// have room for its own transitions.
func (tx *Tx) full() bool {
	return len(tx.puts)+len(tx.deletes) > 40 || tx.payloads > payloadsMax/2
}

// outdates keeps older versions of this package off the head: it now holds what
// they would pass over.
func (tx *Tx) outdates() { tx.Version = newestVersion }

// touch marks the head as changed.
func (tx *Tx) touch() { tx.changed = true }

// put writes a key with this commit. A later put of the same key counts.
func (tx *Tx) put(key, value []byte) {
	tx.changed = true
	for i := range tx.puts {
		if bytes.Equal(tx.puts[i].Key, key) {
			tx.puts[i].Value = value
			return
		}
	}
	tx.puts = append(tx.puts, kvstore.Put{Key: key, Value: value})
}

func (tx *Tx) putJSON(key []byte, v any) {
	b, err := encode(v)
	tx.putEncoded(key, b, err)
}

func (tx *Tx) putEncoded(key, b []byte, err error) {
	if err != nil && tx.err == nil {
		tx.err = fmt.Errorf("session: %s does not encode: %w", keyName(key), err)
	}
	tx.put(key, b)
}

// delete removes a key with this commit, and forgets a put of it.
func (tx *Tx) delete(key []byte) {
	tx.changed = true
	for i := range tx.puts {
		if bytes.Equal(tx.puts[i].Key, key) {
			tx.puts = append(tx.puts[:i], tx.puts[i+1:]...)
			break
		}
	}
	for _, k := range tx.deletes {
		if bytes.Equal(k, key) {
			return
		}
	}
	tx.deletes = append(tx.deletes, key)
}

// read decodes the record under key, as this transition leaves it. Records are
// only written together with the head, so what is read belongs to the head that
// the commit will be checked against. Where nothing is committed, the head is
// looked at once more for a record that isn't there: it may have gone since, with
// its session.
func (tx *Tx) read(key []byte, v any) (found bool, err error) {
	for i := range tx.puts {
		if bytes.Equal(tx.puts[i].Key, key) {
			return true, decode(key, tx.puts[i].Value, v)
		}
	}
	found, err = tx.kv.record(tx.ctx, key, v)
	tx.missed = tx.missed || err == nil && !found
	return found, err
}
