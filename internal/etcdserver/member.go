package etcdserver

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// memberOrder is what a member is told.
type memberOrder struct {
	Name, Dir    string
	Client, Peer string // addresses
	Initial      string // all members, as etcd has them
}

// member is one of a cluster, as the cluster's process sees it.
type member struct {
	memberOrder
	cmd   *exec.Cmd // nil: it doesn't run
	in    io.WriteCloser
	lines *bufio.Reader
	id    string
}

func (m *member) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	order, err := json.Marshal(m.memberOrder)
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), memberVariable+"="+string(order))
	cmd.Stderr = os.Stderr
	if m.in, err = cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	m.lines = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		return err
	}
	m.cmd = cmd
	return nil
}

// ready waits until a member that was started takes requests.
func (m *member) ready() error {
	id, err := m.line()
	m.id = id
	return err
}

func (m *member) line() (string, error) {
	line, err := m.lines.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("etcdserver: %s has ended: %w", m.Name, err)
	}
	return strings.TrimSpace(line), nil
}

// tell tells a member what to do, and returns what it answers.
func (m *member) tell(what string) (string, error) {
	if _, err := fmt.Fprintln(m.in, what); err != nil {
		return "", err
	}
	return m.line()
}

func (m *member) kill() error {
	if m.cmd == nil {
		return nil
	}
	err := m.cmd.Process.Kill()
	_ = m.cmd.Wait() // it was killed
	m.cmd = nil
	return err
}

// serve is the program of a member. It says its id when it takes requests, does
// what the lines of its input say, answers each by a line, and ends when its
// input does: that is, with the cluster's process at the latest.
func serve(given string) error {
	var o memberOrder
	if err := json.Unmarshal([]byte(given), &o); err != nil {
		return err
	}
	e := embed.NewConfig()
	e.Name, e.Dir, e.InitialCluster = o.Name, o.Dir, o.Initial
	e.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	client, peer := []url.URL{{Scheme: "http", Host: o.Client}}, []url.URL{{Scheme: "http", Host: o.Peer}}
	e.ListenClientUrls, e.AdvertiseClientUrls = client, client
	e.ListenPeerUrls, e.AdvertisePeerUrls = peer, peer
	e.UnsafeNoFsync = true // what a kill leaves, the machine has
	e.EnableGRPCGateway = false
	e.TickMs, e.ElectionMs = 50, 500
	server, err := embed.StartEtcd(e)
	if err != nil {
		return err
	}
	defer server.Close()
	said := make(chan string)
	go func() {
		defer close(said)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			said <- in.Text()
		}
	}()
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		return err
	case <-said: // there is nothing to do yet: the input has ended
		return nil
	}
	fmt.Println(server.Server.MemberID())
	for what := range said {
		fmt.Println(obey(server, what))
	}
	return nil
}

func obey(e *embed.Etcd, what string) string {
	word, about, _ := strings.Cut(what, " ")
	id, err := types.IDFromString(about)
	switch {
	case word == "leads":
		return fmt.Sprint(e.Server.Leader() == e.Server.MemberID())
	case err != nil:
		return err.Error()
	case word == "cut":
		e.Server.CutPeer(id)
	case word == "mend":
		e.Server.MendPeer(id)
	}
	return "done"
}
