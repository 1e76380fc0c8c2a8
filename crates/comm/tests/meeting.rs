//! The meeting point: who gets in, what it refuses, and that it is bounded.

mod support;

use cairn_comm::Code;
use cairn_comm::engine::{LinkErrorKind, Store};
use cairn_comm::meeting::client::{Client, Place, ServerState};
use cairn_comm::meeting::server::{Server, ServerSpec};
use cairn_comm::meeting::wire::{MAX_VALUE, Member, Reply, Request};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::sync::Barrier;
use std::time::Duration;

const KEY: u128 = 0x1234_5678_9abc_def0_1234_5678_9abc_def0;
const LONG: Duration = Duration::from_secs(60);

fn spec(timeout: Duration) -> ServerSpec {
    ServerSpec {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        ports: Vec::new(),
        key: KEY,
        timeout,
        lifetime: LONG,
        whitelist: None,
    }
}

fn server(timeout: Duration) -> Server {
    Server::open(spec(timeout)).unwrap()
}

fn place(server: &Server) -> Place {
    Place { addresses: vec![server.address()], key: KEY, may_be_late: false }
}

fn member(rank: u32, size: u32) -> Member {
    Member {
        rank,
        size,
        device: rank,
        host: 5,
        pid: 1000 + rank,
        name: "world".into(),
        buffer_bytes: 1 << 20,
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
    }
}

/// Joins on a thread for each member; what each got.
fn join_all(server: &Server, members: &[Member]) -> Vec<cairn_comm::Result<(Client, Vec<Member>)>> {
    let place = place(server);
    std::thread::scope(|scope| {
        let threads: Vec<_> = members
            .iter()
            .map(|member| {
                let place = &place;
                scope.spawn(move || Client::join(place, "", member, LONG))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn pair(server: &Server) -> [Client; 2] {
    let joined = join_all(server, &[member(0, 2), member(1, 2)]);
    let clients: Vec<Client> = joined.into_iter().map(|joined| joined.unwrap().0).collect();
    clients.try_into().ok().unwrap()
}

#[test]
fn all_get_the_same_roster_and_a_store() {
    let server = server(LONG);
    let members: Vec<Member> = (0..5).map(|rank| member(rank, 5)).collect();
    let joined: Vec<_> = join_all(&server, &members).into_iter().map(Result::unwrap).collect();
    assert!(joined.iter().all(|(_, roster)| *roster == members));
    std::thread::scope(|scope| {
        let (first, last) = (&joined[0].0, &joined[4].0);
        let waiting = scope.spawn(|| last.get("a", LONG).unwrap());
        first.set("a", b"value").unwrap();
        assert_eq!(waiting.join().unwrap(), b"value");
        assert!(first.set("a", b"other").is_err());
        assert_eq!(last.set_first("a", b"other").unwrap(), b"value");
        assert_eq!(first.set_first("b", b"mine").unwrap(), b"mine");
        assert_eq!(last.peek("c").unwrap(), None);
        let error = last.get("c", Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind, LinkErrorKind::Timeout);
    });
    // A rank of a communicator that is complete.
    let error = Client::join(&place(&server), "", &member(2, 5), LONG).err().unwrap();
    assert!(
        error.text.contains("rank 2 came to a communicator that is complete"),
        "{}",
        error.text
    );
    // Another communicator at the same place.
    let other = Client::join(&place(&server), "sub", &member(0, 1), LONG).unwrap();
    assert_eq!(other.0.peek("a").unwrap(), None);
}

#[test]
fn a_wrong_key_is_dropped() {
    let server = server(LONG);
    let wrong = Place { key: KEY + 1, ..place(&server) };
    let error = Client::join(&wrong, "", &member(0, 2), LONG).err().unwrap();
    assert_eq!(error.code, Code::TcpConnect);
    assert!(error.text.contains("did not let this rank in"), "{}", error.text);
    pair(&server);
}

#[test]
fn ranks_that_disagree_all_learn_it() {
    let with_name = |name: &str, member: Member| Member { name: name.into(), ..member };
    let cases = [
        (vec![member(0, 3), member(1, 3), member(1, 3)], "rank 1 came twice"),
        (vec![member(0, 3), member(1, 2)], "ranks, rank"),
        (vec![member(0, 2), with_name("other", member(1, 2))], "calls the communicator"),
    ];
    for (members, expected) in cases {
        let server = server(LONG);
        for joined in join_all(&server, &members) {
            let error = joined.err().unwrap();
            assert!(error.text.contains(expected), "{}", error.text);
        }
    }
}

#[test]
fn a_rank_that_comes_after_others_disagreed_and_left_learns_it() {
    let server = server(LONG);
    for joined in join_all(&server, &[member(1, 3), member(1, 3)]) {
        assert!(joined.err().unwrap().text.contains("rank 1 came twice"));
    }
    // The server has seen the two leave when it has let another one in.
    let late = Client::join(&place(&server), "", &member(0, 3), LONG).err().unwrap();
    assert!(late.text.contains("rank 1 came twice"), "{}", late.text);
}

#[test]
fn ranks_that_never_come_are_named() {
    let server = server(Duration::from_millis(50));
    let error = Client::join(&place(&server), "", &member(2, 4), LONG).err().unwrap();
    assert_eq!(error.code, Code::Timeout);
    let text = "ranks 0, 1, 3 of 4 did not come within 0.05 s (HCCL_CONNECT_TIMEOUT)";
    assert_eq!(error.text, text);
}

#[test]
fn a_server_that_nobody_uses_ends() {
    let lifetime = Duration::from_millis(5);
    let server = Server::open(ServerSpec { lifetime, ..spec(LONG) }).unwrap();
    while server.is_open() {
        std::thread::yield_now();
    }
    let error = Client::join(&place(&server), "", &member(1, 4), LONG).err().unwrap();
    assert!(error.text.contains("cannot connect"), "{}", error.text);
}

#[test]
fn a_rank_that_leaves_early_ends_the_meeting() {
    let server = server(LONG);
    let join = |rank| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let hello = Request::Hello { key: KEY, group: String::new() };
        stream.write_all(&hello.encode()).unwrap();
        expect(&mut stream, &Reply::Welcome);
        stream.write_all(&Request::Join(member(rank, 3)).encode()).unwrap();
        stream.write_all(&Request::Get { key: "x".into(), timeout_ms: 0 }.encode()).unwrap();
        expect(&mut stream, &Reply::Nothing);
        stream
    };
    let (mut patient, early) = (join(0), join(1));
    drop(early);
    let text = "rank 1 left before all ranks had come".into();
    expect(&mut patient, &Reply::Refused { code: Code::Remote as i32, text });
}

/// Reads exactly this reply.
fn expect(stream: &mut TcpStream, reply: &Reply) {
    let expected = reply.encode();
    let mut bytes = vec![0; expected.len()];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes, expected);
}

#[test]
fn a_rank_that_dies_ends_what_others_wait_for() {
    let server = server(LONG);
    let [first, second] = pair(&server);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| first.get("never", LONG).unwrap_err());
        drop(second);
        let error = waiting.join().unwrap();
        assert_eq!((error.kind, error.text.as_str()), (LinkErrorKind::PeerGone, "rank 1 is gone"));
    });
}

#[test]
fn garbage_is_survived() {
    let server = server(LONG);
    let hello = Request::Hello { key: KEY, group: String::new() }.encode();
    let garbage: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 64],
        &[0; 64],
        &hello[..hello.len() - 3],
        &Request::Get { key: "a".into(), timeout_ms: 9 }.encode(),
        &[],
    ];
    for bytes in garbage {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{answer:?}");
    }
    // After the key was shown.
    let mut known = TcpStream::connect(server.address()).unwrap();
    known.write_all(&hello).unwrap();
    expect(&mut known, &Reply::Welcome);
    known.write_all(&[9, 0, 0, 0, 77, 1, 1, 1, 1, 1, 1, 1, 1]).unwrap();
    let mut answer = Vec::new();
    let _ = known.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{answer:?}");
    pair(&server);
}

#[test]
fn strangers_and_values_are_bounded() {
    let server = server(LONG);
    let mut strangers: Vec<TcpStream> =
        (0..200).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    let [client, _other] = pair(&server);
    // The oldest were dropped to make room.
    let mut byte = [0];
    strangers[0].set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(strangers[0].read(&mut byte).unwrap(), 0);
    assert!(client.set("long", &vec![0; MAX_VALUE + 1]).is_err());
    let mut kept = 0;
    let value = vec![1; MAX_VALUE];
    let error = loop {
        match client.set(&format!("key {kept}"), &value) {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
    };
    assert!(error.text.contains("keeps no more than"), "{}", error.text);
    assert_eq!(kept, (64 << 20) / MAX_VALUE - 1);
    assert_eq!(client.get("key 3", LONG).unwrap(), value);
}

#[test]
fn the_end_of_the_meeting_point_is_told_from_its_loss() {
    let server = server(LONG);
    let [first, second] = pair(&server);
    assert_eq!(first.server_state(), ServerState::Open);
    first.leave();
    drop(server);
    for client in [&first, &second] {
        assert_eq!(client.server_state(), ServerState::Ended);
    }
    assert!(second.peek("x").is_err());
}

#[test]
fn a_rank_that_comes_before_the_server_waits_for_it() {
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let address = std::net::SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let place = Place { addresses: vec![address], key: KEY, may_be_late: true };
    let started = Barrier::new(2);
    std::thread::scope(|scope| {
        let early = scope.spawn(|| {
            started.wait();
            Client::join(&place, "", &member(1, 2), LONG).map(|_| ())
        });
        started.wait();
        let whitelist = Some(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]);
        let spec = ServerSpec { ports: vec![port], whitelist, ..spec(LONG) };
        let server = Server::open(spec).unwrap();
        Client::join(&place, "", &member(0, 2), LONG).unwrap();
        early.join().unwrap().unwrap();
        drop(server);
    });
}

#[test]
fn a_whitelist_keeps_others_out_and_ports_are_tried_in_order() {
    let spec = |ports: Vec<u16>, whitelist| ServerSpec { ports, whitelist, ..spec(LONG) };
    let first = Server::open(spec(Vec::new(), Some(vec![[10, 0, 0, 1].into()]))).unwrap();
    let error = Client::join(&place(&first), "", &member(0, 1), LONG).err().unwrap();
    assert_eq!(error.code, Code::TcpConnect);
    let taken = first.address().port();
    let error = Server::open(spec(vec![taken], None)).err().unwrap();
    assert!(error.text.contains(&format!("port {taken}")), "{}", error.text);
}
