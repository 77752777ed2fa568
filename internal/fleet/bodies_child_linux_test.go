package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/fermatatest/sharedkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/handle"
)

// Environment variables that make this program another one: a process that has
// a handle, of a hostOrder as JSON, or the program that a handle runs, of its
// folder.
const (
	hostVariable    = "FERMATA_FLEET_HOST"
	beatingVariable = "FERMATA_FLEET_BEATING"
)

func init() { programs[hostVariable], programs[beatingVariable] = host, beat }

// hostOrder is what the test gives a process that may have the handle.
type hostOrder struct {
	Engine, Process string
	Dir             string // where programs beat
	Records         string // the folder of the launcher
	Effect          tool.Effect
	Shell           bool // programs are shells, and what these start beats
	Lease           time.Duration
}

// The handle, its session, and who asks.
const (
	bodiesChat = "chat"
	bodiesName = "a"
	bodiesUser = "ada"
)

// The files of a folder in which programs beat.
const (
	beatsFile = "beats" // a line for each beat: the program's number, its start, the time
	overFile  = "over"  // is there: programs end
)

// host is the program of a process that may have the handle. It does what the
// lines of its input say, answers each by a line, and ends when its input does.
func host(order string) error {
	var o hostOrder
	if err := json.Unmarshal([]byte(order), &o); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(o.Dir, o.Process+".log"),
		os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(log, nil))
	launcher, err := handle.OpenLauncher(&handle.LauncherOptions{Dir: o.Records, Log: logger})
	if err != nil {
		return err
	}
	defer launcher.Close()
	rn, err := o.runner(launcher, logger)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	fmt.Println("there")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		told, err := o.do(ctx, rn, in.Text())
		if err != nil {
			told = fmt.Sprintf("failed: %v", err)
		}
		fmt.Println(told)
	}
	return rn.Close()
}

func (o hostOrder) runner(l *handle.Launcher, log *slog.Logger) (*runner.Runner, error) {
	command, err := handle.NewCommand(l, tool.Spec{Name: "beat", Effect: o.Effect},
		func(context.Context, struct{}) (handle.Program, error) {
			self, err := os.Executable()
			p := handle.Program{Path: self,
				Env: append(os.Environ(), hostVariable+"=", beatingVariable+"="+o.Dir)}
			if o.Shell {
				p.Path, p.Args = "/bin/sh", []string{"-c", `"$0" & wait`, self}
			}
			return p, err
		}, nil)
	if err != nil {
		return nil, err
	}
	live, err := handle.Live(command, nil)
	if err != nil {
		return nil, err
	}
	beats, err := handle.Stateful(live, nil)
	if err != nil {
		return nil, err
	}
	ag, err := agent.New(agent.Config{Name: "bodies", Tools: []tool.Tool{beats},
		Model: fakellm.New(fakellm.Says("Hi."))})
	if err != nil {
		return nil, err
	}
	kv := sharedkv.Open(o.Engine, &sharedkv.Options{Name: o.Process})
	return runner.New(ag, session.NewStore(kv, &session.Options{Lease: o.Lease,
		MaxSkew: time.Millisecond}), &runner.Options{Logger: log, CloseTimeout: time.Second})
}

// What a process may be told.
const (
	spawnIt  = "spawn"
	workOnIt = "work" // have a worker from now on
	listIt   = "list" // tell of the handle, and carry nothing on
	fetchIt  = "fetch"
)

func (o hostOrder) do(ctx context.Context, rn *runner.Runner, what string) (string, error) {
	var told any = "done"
	var err error
	switch what {
	case spawnIt:
		for _, err := range rn.Run(ctx, bodiesUser, bodiesChat, llm.UserText("Hello."), nil) {
			if err != nil {
				return "", err
			}
		}
		_, err = rn.Spawn(ctx, bodiesChat, runner.Spawning{Handle: bodiesName, Tool: "beat",
			Arguments: json.RawMessage(`{}`), ID: "1", Actor: bodiesUser})
	case workOnIt:
		go func() {
			_ = rn.Work(ctx, &runner.WorkOptions{Poll: 20 * time.Millisecond, SweepEvery: -1,
				OnEvent: func(string, event.Event, error) {}})
		}()
	case listIt:
		for h, err := range rn.Handles(ctx, bodiesChat, runner.HandleFilter{}, bodiesUser) {
			if err != nil {
				return "", err
			}
			told = h
		}
	case fetchIt:
		told, err = rn.Fetch(ctx, bodiesChat, bodiesName, bodiesUser)
	default:
		err = fmt.Errorf("no such word: %q", what)
	}
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(told)
	return string(text), err
}

// beat is the program of a handle. It beats until it is told to end, for a
// minute at most.
func beat(dir string) error {
	file, err := os.OpenFile(filepath.Join(dir, beatsFile),
		os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	start := time.Now()
	next := time.NewTicker(50 * time.Millisecond)
	defer next.Stop()
	for now := start; now.Sub(start) < time.Minute; now = <-next.C {
		if _, err := fmt.Fprintln(file, os.Getpid(), start.UnixNano(), now.UnixNano()); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(dir, overFile)); err == nil {
			return nil
		}
	}
	return nil
}
