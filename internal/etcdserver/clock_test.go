package etcdserver_test

import (
	"encoding/json"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fermata-ai/fermata/internal/etcdserver"
	"github.com/fermata-ai/fermata/kvstore/etcd"
)

// door is an address that stays when the server behind it is another one.
type door struct {
	l  net.Listener
	mu sync.Mutex
	to string
	in []net.Conn
}

func newDoor(t *testing.T) *door {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	d := &door{l: l}
	t.Cleanup(func() {
		l.Close()
		d.lead("")
	})
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go d.pass(conn)
		}
	}()
	return d
}

// lead has the door lead to a server, and breaks what went to another one.
func (d *door) lead(to string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, conn := range d.in {
		conn.Close()
	}
	d.to, d.in = to, nil
}

func (d *door) pass(conn net.Conn) {
	defer conn.Close()
	d.mu.Lock()
	to := d.to
	d.in = append(d.in, conn)
	d.mu.Unlock()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		defer conn.Close()
		io.Copy(conn, server)
	}()
	io.Copy(server, conn)
}

// setClock stores a clock that is so much ahead of this machine's.
func setClock(t *testing.T, addr string, ahead time.Duration) {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	must(t, err)
	defer c.Close()
	lease, err := c.Grant(t.Context(), 1_000_000_000)
	must(t, err)
	value, err := json.Marshal(map[string]any{"version": 1, "term": lease.RaftTerm, "lease": lease.ID,
		"begun": time.Now().Add(ahead)})
	must(t, err)
	_, err = c.Put(t.Context(), "fermata\x02", string(value))
	must(t, err)
}

// shows makes sure that a store's clock is so much ahead of this machine's, as far
// as a busy machine can tell.
func shows(t *testing.T, s *etcd.Store, ahead time.Duration) {
	t.Helper()
	now, within := s.Now()
	if off := now.Sub(time.Now().Add(ahead)).Abs(); off > time.Minute || within > time.Minute {
		t.Errorf("Now is %v (within %v), off by %v", now, within, off)
	}
}

// The cluster's clock is one for all processes. It goes on when the cluster has
// another leader, or is restarted, which gives each lease its full length again:
// a process that knows the time tells it to those that begin.
func TestClockGoesOnInALaterTerm(t *testing.T) {
	t.Parallel()
	const ahead = 10 * time.Minute
	dir, front := t.TempDir(), newDoor(t)
	first, err := etcdserver.Start(etcdserver.Config{Dir: dir})
	must(t, err)
	defer first.Close()
	front.lead(first.Addr())
	setClock(t, first.Addr(), ahead)
	knows := open(t, "etcd://"+front.l.Addr().String(), nil)
	shows(t, knows, ahead)
	for range 2 {
		first.Close()
		next, err := etcdserver.Start(etcdserver.Config{Dir: dir})
		must(t, err)
		defer next.Close()
		first = next
		front.lead(next.Addr())
		late := time.Now().Add(time.Minute)
		for told := false; !told && time.Now().Before(late); {
			_, _ = knows.Apply(t.Context(), puts("a", nil)) // an answer of the new term
			begins := open(t, "etcd://"+next.Addr(), nil)
			if now, _ := begins.Now(); !now.IsZero() {
				shows(t, begins, ahead)
				told = true
			}
			must(t, begins.Close())
		}
		if time.Now().After(late) {
			t.Fatal("the clock doesn't go on")
		}
		shows(t, knows, ahead)
	}
}

// A process that begins doesn't believe a time that its machine's clock is far
// from: the cluster may have been restored, and its terms counted anew.
func TestClockOfAnotherTime(t *testing.T) {
	t.Parallel()
	url := start(t, etcdserver.Config{})
	setClock(t, url[len("etcd://"):], -2*time.Hour)
	if now, within := open(t, url, nil).Now(); !now.IsZero() {
		t.Errorf("Now is %v, within %v", now, within)
	}
}

// Where no process knows the time, the first one that begins takes its
// machine's.
func TestClockBegins(t *testing.T) {
	t.Parallel()
	url := start(t, etcdserver.Config{})
	shows(t, open(t, url, nil), 0)
	shows(t, open(t, url, nil), 0)
}
