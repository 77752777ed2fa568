//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// binary is the program, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "deploy-test-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "deploy")
	build := exec.Command("go", "build", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		panic(string(out))
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// show is one run of the program.
type show struct {
	t      *testing.T
	cmd    *exec.Cmd
	output io.Reader // of all its processes: it ends when the last one has
	text   strings.Builder
	errors bytes.Buffer
	tmp    string
}

func start(t *testing.T, input string, args ...string) *show {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	s := &show{t: t, cmd: exec.CommandContext(ctx, binary, args...), tmp: t.TempDir()}
	s.cmd.Env = append(os.Environ(), "TMPDIR="+s.tmp)
	s.cmd.Stdin = strings.NewReader(input)
	s.cmd.Stderr = &s.errors
	pipe, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.output = bufio.NewReader(io.TeeReader(pipe, &s.text))
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// until reads the output up to a line that matches, and returns its first group.
func (s *show) until(pattern string) string {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	for {
		line, err := s.output.(*bufio.Reader).ReadString('\n')
		if found := re.FindStringSubmatch(line); found != nil {
			return found[1]
		}
		if err != nil {
			s.t.Fatalf("no %q in the output:\n%s%s", pattern, s.text.String(), s.errors.String())
		}
	}
}

// end waits until none of the processes is left, and returns all output and whether the program succeeded.
func (s *show) end() (output string, ok bool) {
	s.t.Helper()
	if _, err := io.Copy(io.Discard, s.output); err != nil {
		s.t.Fatal(err)
	}
	ok = s.cmd.Wait() == nil
	return s.text.String(), ok
}

// clean checks that nothing is left on the disk.
func (s *show) clean() {
	s.t.Helper()
	left, err := os.ReadDir(s.tmp)
	if err != nil || len(left) > 0 {
		s.t.Errorf("left behind: %v (%v)", left, err)
	}
}

// landmarks checks that the output has lines that match, in this order.
func landmarks(t *testing.T, output string, patterns ...string) {
	t.Helper()
	rest := output
	for _, p := range patterns {
		at := regexp.MustCompile("(?m)" + p).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("no %q at its place in\n%s", p, output)
		}
		rest = rest[at[1]:]
	}
}

var waitAndResume = []string{
	`committed +pause +deploy waits: external job-1, until [0-9:]+$`,
	`exited +ask +process \d+: exit status 0$`,
	`^3  `,
	`stored +session +chat-1 of ada: paused, \d messages$`,
	`stored +pause +deploy waits: external job-1`,
	`^4  `,
	`started +resume +process \d+$`,
	`stored +progress +\[#####-+\] +25 %  build$`,
	`stored +progress +\[#+-+\] +50 %  test$`,
	`stored +progress +\[#+-+\] +75 %  roll out$`,
	`stored +receipt +1 of 1: deploy complete by webhook$`,
	`answered +delivery 1 +200 \{"status":"accepted","call":`,
	`stored +receipt +1 of 1: deploy complete by webhook$`,
	`answered +delivery 2 +200 \{"status":"accepted","duplicate":true,"call":`,
	`exited +ci +process \d+: exit status 0$`,
	`^5  `,
	`stored +user +`,
}

func TestGivenMessage(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	output, ok := s.end()
	if !ok {
		t.Fatalf("it failed: %s\n%s", s.errors.String(), output)
	}
	s.clean()
	landmarks(t, output, append(append([]string{
		`^1  `,
		`started +ci +process \d+$`,
		`^2  `,
		`started +ask +process \d+$`,
		`typed +user +"Deploy checkout v2.5.0 to production.`,
		`committed +assistant +calls deploy \{"service":"checkout","version":"v2.5.0","environment":"production"\}$`,
	}, waitAndResume...),
		`stored +assistant +calls deploy`,
		`stored +result +of deploy: \{"url":"https://checkout.production.example.com","seconds":\d+\}$`,
		`stored +result +of get_weather`,
		`answered +ada +Deployed: https://checkout.production.example.com, after \d+ s. It has 3.5 degrees in Oslo.$`,
		`exited +resume +process \d+: exit status 0$`)...)
	landmarks(t, output, `^2  `, `committed +result +of get_weather: \{"temp_c":3.5\}$`, `^3  `) // before the pause, or after it
	pids := map[string]bool{}
	for _, m := range regexp.MustCompile(`started .* process (\d+)`).FindAllStringSubmatch(output, -1) {
		pids[m[1]] = true
	}
	if len(pids) != 3 || pids[strconv.Itoa(s.cmd.Process.Pid)] {
		t.Errorf("the roles are not three processes: %v", pids)
	}
	if regexp.MustCompile(`f\d\.[\w-]+\.[\w-]+`).MatchString(output) {
		t.Errorf("the output has a token:\n%s", output)
	}
}

func TestTypedMessage(t *testing.T) {
	t.Parallel()
	s := start(t, "\nplease deploy cart v1.0-rc1\nthe moon\nstaging\n", "-i")
	output, ok := s.end()
	if !ok {
		t.Fatalf("it failed: %s\n%s", s.errors.String(), output)
	}
	s.clean()
	landmarks(t, output, append(append([]string{
		`Your message`,
		`typed +user +"please deploy cart v1.0-rc1"$`,
		`committed +pause +ask_environment waits: input$`,
		`Where to: staging or production\?`,
		`refused +answer .*"staging", "production"`,
		`Where to: staging or production\?`,
		`committed +result +of ask_environment: "staging"$`,
		`committed +assistant +calls deploy \{"service":"cart","version":"v1.0-rc1","environment":"staging"\}$`,
	}, waitAndResume...), `answered +ada +Deployed: https://cart.staging.example.com`)...)
	if strings.Contains(output, "get_weather") {
		t.Errorf("nobody asked for the weather:\n%s", output)
	}
}

func TestTypedMessageThatNamesNoDeployment(t *testing.T) {
	t.Parallel()
	s := start(t, "Good morning!\n", "-i")
	output, ok := s.end()
	if !ok {
		t.Fatalf("it failed: %s\n%s", s.errors.String(), output)
	}
	s.clean()
	landmarks(t, output,
		`typed +user +"Good morning!"$`,
		`committed +assistant +"I deploy services. Tell me which one, and which version."$`,
		`stored +session +chat-1 of ada: stop, 2 messages$`,
		`exited +ci +process \d+: exit status 0$`)
	if strings.Contains(output, "resume") {
		t.Errorf("there was nothing to resume:\n%s", output)
	}
}

func TestTheJobFails(t *testing.T) {
	t.Parallel()
	s := start(t, "deploy cart v0.1 to production\n", "-i")
	output, ok := s.end()
	if !ok {
		t.Fatalf("it failed: %s\n%s", s.errors.String(), output)
	}
	landmarks(t, output,
		`stored +receipt +1 of 1: deploy fail by webhook$`,
		`answered +delivery 2 +200 .*"duplicate":true`,
		`stored +result +of deploy: "Failed: there is no build of cart v0.1." \(an error\)$`,
		`answered +ada +It is not deployed.`)
}

// Whatever goes wrong, there is an error, an exit code, and nothing left.
func TestFailures(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, input string
		args        []string
		spoil       func(*testing.T, *show)
		says        string
	}{
		{"the input ends", "deploy cart v1\n", []string{"-i"}, nil, "the input ended"},
		{"unknown role", "", []string{"nope"}, nil, "nope"},
		{"a process dies", "", nil, func(t *testing.T, s *show) {
			ci := s.until(`started +ci +process (\d+)`)
			s.until(`started +(resume)`)
			signal(t, ci, syscall.SIGKILL)
		}, "process ci: signal: killed"},
		{"interrupted", "", nil, func(t *testing.T, s *show) {
			s.until(`started +(resume)`)
			signal(t, strconv.Itoa(s.cmd.Process.Pid), syscall.SIGINT)
		}, "canceled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, test.input, test.args...)
			if test.spoil != nil {
				test.spoil(t, s)
			}
			output, ok := s.end()
			if ok || !strings.Contains(s.errors.String(), test.says) {
				t.Errorf("success: %v, and the error is %q\n%s", ok, s.errors.String(), output)
			}
			s.clean()
		})
	}
}

// The other processes don't outlive one that is killed on the spot.
func TestTheParentIsKilled(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.until(`started +(resume)`)
	signal(t, strconv.Itoa(s.cmd.Process.Pid), syscall.SIGKILL)
	if output, ok := s.end(); ok { // it returns when the last one is gone
		t.Errorf("it succeeded:\n%s", output)
	}
}

func signal(t *testing.T, pid string, sig syscall.Signal) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err == nil {
		err = syscall.Kill(n, sig)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The example is to be read. The outside world, in ci.go and package ci, isn't part of it.
func TestLength(t *testing.T) {
	const most = 200
	n := 0
	for _, name := range []string{"main.go", "processes.go", "../internal/tools/tools.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		n += strings.Count(string(text), "\n")
	}
	if n >= most {
		t.Errorf("the example has %d lines, and should have less than %d", n, most)
	}
}
