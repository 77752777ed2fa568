package etcdserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// Cluster is several servers that are one etcd, each a process of its own: this
// program, started once more. Its methods are for one goroutine.
type Cluster struct{ members []*member }

// StartCluster starts a cluster of so many members in a folder of the caller's,
// and returns when it takes requests. The program calls [BeMember] first of all.
func StartCluster(dir string, size int) (*Cluster, error) {
	c := &Cluster{}
	var initial []string
	for n := range size {
		client, err := freeAddress()
		if err != nil {
			return nil, err
		}
		peer, err := freeAddress()
		if err != nil {
			return nil, err
		}
		name := fmt.Sprint("member-", n)
		initial = append(initial, name+"=http://"+peer)
		c.members = append(c.members, &member{memberOrder: memberOrder{
			Name: name, Dir: filepath.Join(dir, name), Client: client, Peer: peer}})
	}
	for _, m := range c.members {
		m.Initial = strings.Join(initial, ",")
		if err := m.start(); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	for _, m := range c.members { // one alone is never ready
		if err := m.ready(); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// Addrs returns where clients find the members, which stays so.
func (c *Cluster) Addrs() (all []string) {
	for _, m := range c.members {
		all = append(all, m.Client)
	}
	return all
}

// Leader returns which member leads, as it says itself; -1: none does just now.
func (c *Cluster) Leader() (int, error) {
	for n, m := range c.members {
		leads, err := m.tell("leads")
		if err != nil {
			return 0, err
		}
		if leads == "true" {
			return n, nil
		}
	}
	return -1, nil
}

// Kill ends a member as a crash would.
func (c *Cluster) Kill(n int) error { return c.members[n].kill() }

// Start starts a member again that was killed, and returns when it takes
// requests.
func (c *Cluster) Start(n int) error {
	if err := c.members[n].start(); err != nil {
		return err
	}
	return c.members[n].ready()
}

// Stop keeps a member from running, until Continue. Its connections stay.
func (c *Cluster) Stop(n int) error {
	return halt(c.members[n].cmd.Process)
}

// Continue ends what Stop began.
func (c *Cluster) Continue(n int) error {
	return resume(c.members[n].cmd.Process)
}

// CutOff keeps a member from the others, which it keeps running beside, and
// clients reach. Mend ends that.
func (c *Cluster) CutOff(n int) error { return c.between(n, "cut") }

// Mend ends what CutOff began.
func (c *Cluster) Mend(n int) error { return c.between(n, "mend") }

func (c *Cluster) between(n int, what string) error {
	var failed []error
	for other, m := range c.members {
		if other == n {
			continue
		}
		for _, pair := range [][2]*member{{m, c.members[n]}, {c.members[n], m}} {
			_, err := pair[0].tell(what + " " + pair[1].id)
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// Close ends all members. Their data stay.
func (c *Cluster) Close() error {
	var failed []error
	for _, m := range c.members {
		failed = append(failed, m.kill())
	}
	return errors.Join(failed...)
}

// freeAddress finds an address for a process that is started later.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// memberVariable is the environment variable that makes this program a member:
// its order, as JSON.
const memberVariable = "FERMATA_ETCD_MEMBER"

// BeMember is the program of a member, if this process was started as one, and
// returns when that has ended.
func BeMember() (was bool, err error) {
	given := os.Getenv(memberVariable)
	if given == "" {
		return false, nil
	}
	return true, serve(given)
}
