package machines

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/internal/fleet"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// decision is what a person tells a replica, a process of a program that takes
// people's decisions.
type decision struct{ URL, Session, Pause, Actor, Word string }

// replicaVariable is the environment variable that makes this program a replica:
// its decision, as JSON.
const replicaVariable = "FERMATA_MACHINES_REPLICA"

// beReplica is that process, if this one was started as one: it prints that it is
// ready, waits for a line, decides, and prints what it was told.
func beReplica() (was bool, err error) {
	given := os.Getenv(replicaVariable)
	if given == "" {
		return false, nil
	}
	var d decision
	if err := json.Unmarshal([]byte(given), &d); err != nil {
		return true, err
	}
	ctx := context.Background()
	place := fleet.Place{URL: d.URL, Lease: session.DefaultLease}
	kv, err := open(ctx, place)
	for late := time.Now().Add(time.Minute); err != nil && time.Now().Before(late); {
		kv, err = open(ctx, place) // the machine is busy
	}
	if err != nil {
		return true, err
	}
	defer kv.Close()
	rn, err := runner.New(nil, session.NewStore(kv, nil), nil)
	if err != nil {
		return true, err
	}
	defer rn.Close()
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return true, err
	}
	decide := runner.Approve
	if d.Word == "deny" {
		decide = runner.Deny
	}
	resumed, err := rn.Resume(ctx, d.Session, decide(d.Pause, runner.Actor(d.Actor), "because"))
	var conflict *session.ConflictError
	switch {
	case errors.As(err, &conflict):
		fmt.Println("conflict", conflict.Receipt.Actor, conflict.Receipt.At.UnixMilli())
	case err != nil:
		return true, err
	case resumed.Receipts[0].Duplicate:
		fmt.Println("duplicate", resumed.Receipts[0].Actor, resumed.Receipts[0].At.UnixMilli())
	default:
		fmt.Println("accepted", resumed.Receipts[0].Actor, resumed.Receipts[0].At.UnixMilli())
	}
	return true, nil
}

// replica is such a process, as a test sees it.
type replica struct {
	in    io.Writer
	lines *bufio.Scanner
}

// startReplica starts one, and returns when it is ready.
func startReplica(t *testing.T, d decision) *replica {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	given, err := json.Marshal(d)
	must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), replicaVariable+"="+string(given))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, as a rule
		_ = cmd.Wait()
	})
	r := &replica{in, bufio.NewScanner(out)}
	if line := r.line(); line != "ready" {
		t.Fatalf("a replica says %q", line)
	}
	return r
}

// told has it decide, and returns what it was told.
func (r *replica) told() string {
	fmt.Fprintln(r.in)
	return r.line()
}

func (r *replica) line() string {
	r.lines.Scan()
	return r.lines.Text()
}
