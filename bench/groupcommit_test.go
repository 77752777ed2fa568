package bench

import (
	"encoding/binary"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/fermata-ai/fermata/kvstore"
)

// BenchmarkGroupCommit compares durable writes per second, of one small put
// each:
//
//	x-64-vs-1      64 writers, over one writer: what sharing commits is worth
//	x-1-vs-update  one writer, over bbolt's bare Update: what the engine costs
//	               a lone writer
//
// The disk's speed changes from second to second, so the sides take turns: the
// lone writers with each write, the many in short rounds beside them. Medians
// are reported, of single writes and of rounds.
func BenchmarkGroupCommit(b *testing.B) {
	const rounds, turn = 20, 60 * time.Millisecond
	// A file each, so that none is larger for what another side wrote.
	one, shared, bare := engine(b), engine(b), openBare(b)
	var alone, update []float64 // seconds of a write
	var many, gain []float64    // writes per second
	for b.Loop() {
		for range rounds {
			u, a := alternate(2*turn, bare, one)
			m := writesPerSecond(64, turn, shared)
			update, alone = append(update, u...), append(alone, a...)
			many, gain = append(many, m), append(gain, m*mean(a))
		}
	}
	b.ReportMetric(1/median(update), "update/s")
	b.ReportMetric(1/median(alone), "1-writer/s")
	b.ReportMetric(median(many), "64-writers/s")
	b.ReportMetric(median(gain), "x-64-vs-1")
	b.ReportMetric(median(update)/median(alone), "x-1-vs-update")
	b.ReportMetric(0, "ns/op") // of no meaning here
}

// alternate has one writer put to two stores in turn, for a while, and returns
// the seconds that each write took.
func alternate(turn time.Duration, a, b func(key []byte) error) (as, bs []float64) {
	timed := func(put func(key []byte) error) float64 {
		start := time.Now()
		mustPut(put)
		return time.Since(start).Seconds()
	}
	for start := time.Now(); time.Since(start) < turn; {
		as, bs = append(as, timed(a)), append(bs, timed(b))
		bs, as = append(bs, timed(b)), append(as, timed(a)) // the order of the two alternates
	}
	return as, bs
}

// engine returns a function that puts one entry through the engine.
func engine(b *testing.B) func(key []byte) error {
	s := openBolt(b)
	value := make([]byte, 100)
	return func(key []byte) error {
		_, err := s.Apply(b.Context(), kvstore.Batch{Puts: []kvstore.Put{{Key: key, Value: value}}})
		return err
	}
}

// openBare returns the same with bbolt alone.
func openBare(b *testing.B) func(key []byte) error {
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "bare.db"), 0o600, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	name, value := []byte("entries"), make([]byte, 100)
	if err := db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(name)
		return err
	}); err != nil {
		b.Fatal(err)
	}
	return func(key []byte) error {
		return db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(name).Put(key, value) })
	}
}

var nextKey atomic.Uint64

func mustPut(put func(key []byte) error) {
	if err := put(binary.BigEndian.AppendUint64(nil, nextKey.Add(1))); err != nil {
		panic(err)
	}
}

// writesPerSecond has so many writers put, each the next when the last is
// durable, for a while.
func writesPerSecond(writers int, turn time.Duration, put func(key []byte) error) float64 {
	var writes atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for range writers {
		all.Go(func() {
			for time.Since(start) < turn {
				mustPut(put)
				writes.Add(1)
			}
		})
	}
	all.Wait()
	return float64(writes.Load()) / time.Since(start).Seconds()
}
