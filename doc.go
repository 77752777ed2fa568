// Package fermata is the root of a library for tool calls of AI agents that
// have to wait: for a deployment, a batch job, an approval, an answer. It holds
// no code; start with these packages:
//
//   - tool: a typed Go function as a tool. It returns Done, Pending or
//     NeedInput.
//   - agent: a model, instructions, tools, interceptors and limits.
//   - runner: Run, Resume, Progress, Cancel and Work, over a session.Store.
//   - session: the Store, receipts, refusals, and a store's upkeep.
//   - kvstore/bolt: the storage engine, embedded in the process. Engines that
//     processes share are modules: kvstore/postgres, kvstore/etcd.
//   - webhook: the HTTP handlers by which outside systems answer.
//   - httpapi: the HTTP handler for browsers and other programs.
//   - fakellm: a scripted model for tests.
//
// The README has a whole program, and says what to read next.
//
// # Words
//
// Each word has one meaning, in the code and in the docs.
//
// What is stored:
//
//   - A session is one conversation of one user with one agent. Its head is the
//     small record that says all that decides what happens next.
//   - A run begins with a user's message and ends when the model is done, or
//     when a limit, an error or a cancellation ends it. It may take months.
//   - A turn is one message of the model, with the calls that it asks for,
//     until each of them has its result.
//   - A call is one tool call of a turn. The body is the tool's own code. An
//     attempt is one entry of the body, a re-entry one that brings an answer.
//     To claim a call is to store that its body is about to be entered.
//   - A child is a session that a call of another one, its parent, has begun
//     and waits for. The root is the session at the top, which the user talks
//     to; the path leads from there down to a child. To hand a session over is
//     to let another agent have it from then on.
//   - An errand is what one session owes to another one, or to the outside. It
//     stands in the session's outbox until it is carried out.
//   - A handle is a child of one call and no model, which has a name in its
//     parent. To spawn is to begin one. To await is to wait until handles have
//     stopped.
//   - A wait handle is a handle that something outside ends: a call, a program,
//     an outside system, or its time. In a wider scope, of a user or of a
//     store, it is no child.
//   - A permit is the right of a call to go on beside others of its tool. A
//     wait handle has so many of them; a call holds one, and others wait.
//   - A task is a wait handle with a title and a status, which stands in a
//     list.
//   - A workflow is a list of steps that a session carries out. A step is a
//     call of a tool, in a session below. To take a step back, or to compensate
//     it, is to do the step that undoes it.
//   - A schedule is a session that fires at its times. A nominal time is the
//     one that a schedule has for a firing. To fire is to send its message. A
//     firing is missed if it is later than its grace.
//   - A notice is what the runtime tells the model by itself: no word of the
//     user's, and no result.
//   - A notification tells people and systems outside what has happened in a
//     session. A reminder is one that comes before a deadline. A dead letter is
//     one that was tried often enough, and is sent again by hand alone.
//
// What waits, and what ends the wait:
//
//   - A pause is one wait of one call, and has an id. An Await is what a tool
//     or a layer asks for, and becomes a pause when it is committed. A call is
//     parked, not paused, if its tool is gone from the agent.
//   - A layer is one interceptor of an agent's chain. A gate is a layer that
//     asks for a decision; the decision approves or denies the call.
//   - An answer is what comes for a pause: an output, a decision or a failure.
//     A Resumption carries it. To resume is to deliver it.
//   - A receipt is the durable trace of an accepted operation. To accept is to
//     commit; what is not accepted is refused, and leaves nothing.
//   - To settle a call is to commit its one final result.
//   - An actor is who performs an operation: a person, a program, a job. In
//     JSON it stands under "by".
//
// What runs:
//
//   - A drive is one stretch of work on a session, by one runner, from one look
//     at the head to the point where nothing is left to do or the work is cut
//     off. The driver is who does it.
//   - A lease is the right to drive a session. At most one drive holds it, and
//     writes through it. A drive that dies leaves it behind; another one then
//     takes the session over. A drive that ends gives it up.
//   - A worker is a goroutine of Runner.Work: it drives what is due.
//   - To cancel is to end a call or a run before its time. To leave is to stop
//     ranging over the events of a run. To interrupt is what leaving does to
//     it.
//   - To call off is to have a tool do outside what the end of a call asks for
//     that waited. What is owed of that, until it is done, is an undo.
//   - To supersede is to let a user's new message take the place of answers
//     that a session waits for.
//   - To send a message is to store it for a session that a worker drives. It
//     is taken when it is said, or becomes an answer. Until then it waits in the
//     queue of its session. It steers if it goes into the run that goes on.
package fermata
