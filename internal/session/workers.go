package session

import (
	"context"
	"hash/fnv"
	"strconv"

	"github.com/fermata-ai/fermata/kvstore"
)

// Where processes share an engine, their workers share out the sessions. Each
// worker writes an entry, again and again, so that the others know it. Sessions
// fall into shards by their ids, and each shard has one worker, which all agree
// on who know the same workers. What comes of that is less work and nothing
// else: leases decide who drives a session.

// Shards is into how many shards sessions fall.
const Shards = 64

// Shard returns a session's shard.
func Shard(session string) int {
	h := fnv.New32a()
	h.Write([]byte(session))
	return int(h.Sum32() % Shards)
}

// workerEntry tells other workers of one.
type workerEntry struct {
	Version int      `json:"v"`
	Agents  []string `json:"agents"` // whose sessions it carries on
}

func (w *workerEntry) check() error {
	switch {
	case w.Version > Version:
		return ErrNewerVersion
	case w.Version < 1:
		return errIncomplete
	}
	return nil
}

func workerKey(worker string) []byte { return kvstore.Key("A", worker) }

// Worker is a worker of some process, as its entry has it.
type Worker struct {
	ID     string
	Agents []string
	Beat   kvstore.Revision // another one each time the worker is noted
}

// NoteWorker writes a worker's entry, which tells that it lives.
func (s *Store) NoteWorker(ctx context.Context, id string, agents []string) error {
	value, err := encode(&workerEntry{Version: Version, Agents: agents})
	if err != nil {
		return err
	}
	return s.repeat(ctx, kvstore.Batch{Puts: []kvstore.Put{{Key: workerKey(id), Value: value}}})
}

// ForgetWorker takes the entry of a worker away that has ended. One that lives
// writes it anew.
func (s *Store) ForgetWorker(ctx context.Context, id string) error {
	return s.repeat(ctx, kvstore.Batch{Deletes: [][]byte{workerKey(id)}})
}

// Workers lists the workers that have an entry. One that can't be read is left
// out.
func (s *Store) Workers(ctx context.Context) (all []Worker, err error) {
	for e, err := range s.scan(ctx, kvstore.Key("A")) {
		if err != nil {
			return nil, err
		}
		var entry workerEntry
		if decode(e.Key, e.Value, &entry) == nil {
			all = append(all, Worker{lastPart(e.Key), entry.Agents, e.Revision})
		}
	}
	return all, nil
}

const workersTopic = "workers"

func shardTopic(shard int) string { return "work " + strconv.Itoa(shard) }

// SignalWorkers tells the workers of other processes that there is one more, or
// one less.
func (s *Store) SignalWorkers() { s.signal(workersTopic) }

// WatchWorkers returns a channel that gets a value after SignalWorkers.
func (s *Store) WatchWorkers() (c <-chan struct{}, stop func()) { return s.listenFor(workersTopic) }

// WatchShards has the channels of WatchWork get a value, too, when another
// process has made a session of these shards due.
func (s *Store) WatchShards(shards []int) (stop func()) {
	if s.signals == nil {
		return func() {}
	}
	var stops []func()
	for _, shard := range shards {
		stops = append(stops, s.signals.Watch(shardTopic(shard),
			func() { s.local.Signal(workTopic) }))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// signalWork wakes the workers of this process, and of others those that look
// after the session's shard, or all.
func (s *Store) signalWork(session string, all bool) {
	s.local.Signal(workTopic)
	switch {
	case s.signals == nil:
	case all || IsChild(session):
		s.signals.Signal(workTopic)
	default:
		s.signals.Signal(shardTopic(Shard(session)))
	}
}
